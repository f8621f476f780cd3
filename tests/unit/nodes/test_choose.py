from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.measurement import RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate, Refused
from kedro_hone.core.store.artifacts import Store
from kedro_hone.nodes.choose import choose
from kedro_hone.nodes.gate import format_choice
from kedro_hone.recipe.schema import read_recipe


@pytest.fixture
def run(tmp_path):
    """Return what chooses a candidate of a race of four, of which one was refused and one is not in the race."""
    store = Store(tmp_path / "store")
    (tmp_path / "made").mkdir()

    def seal(name):
        (tmp_path / "made" / "file").write_text(name)
        return store.seal(tmp_path / "made", format="onnx", runtime="onnxruntime", inputs=(), outputs=())

    def validate(name, outcome, status=Status.MEASURED, **changes):
        return Validation(candidate=Candidate(id=name, route=("a",), outcome=outcome), status=status, **changes)

    refused = Refused(by="a", reason="it is too small")
    validations = [
        validate("fast", seal("fast")),
        validate("dropped", seal("dropped")),
        validate("refused", refused, Status.REFUSED, reason="it is too small"),
        validate("wrong", seal("wrong"), Status.DROPPED, reason="accuracy fell"),
    ]
    standings = [
        Standing(id="fast", status=Status.MEASURED, rounds=30),
        Standing(id="dropped", status=Status.DROPPED, rounds=5, reason="slower than fast"),
    ]
    took = {"source_latency": (), "rounds": 5, "seconds": 1.0, "budget_ended": False, "timings": "k"}
    result = RaceResult(validations=tuple(validations), standings=tuple(standings), **took)

    def run(name, number=1, data="sha256:data"):
        recipe = read_recipe({"model": {"uri": "models:/x/1"}, **({"choose": name} if name else {})})
        made_from = {"source": SimpleNamespace(digest="sha256:model"), "samples": SimpleNamespace(digest=data)}
        context = SimpleNamespace(recipe=recipe, store=store, run=SimpleNamespace(run_id=f"run {number}"), **made_from)
        return choose(context=context, result=result)

    run.store = store
    return run


def test_the_chosen_one_takes_the_place_of_the_fastest(run):
    result = run("dropped")
    first, second = result.standings
    assert (first.id, first.status, first.reason, first.rounds) == ("dropped", Status.MEASURED, "", 5)
    assert (second.id, second.status) == ("fast", Status.DROPPED)
    assert second.reason == "dropped was chosen in its place."
    choice = result.choice
    assert (choice.candidate, choice.number, choice.offered, choice.confidence) == ("dropped", 1, 2, 0.975)
    assert format_choice(None) == ""
    assert "from 2 raced candidates, which is the first choice on the same data" in format_choice(choice)
    assert "97.50%" in format_choice(choice)


def test_choices_are_counted_as_long_as_they_are_judged_by_the_same_data(run):
    assert [run("fast", 1).choice.number, run("fast", 2).choice.number] == [1, 2]
    assert run("fast", 3, data="sha256:other").choice.number == 1


def test_each_choice_halves_the_level_of_the_next(run):
    levels = [run("fast", number).choice.confidence for number in (1, 2, 3)]
    assert levels == [0.975, 0.9875, 0.99375]
    assert "after 2 other choices" in format_choice(run("fast", 4).choice.model_copy(update={"number": 3}))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fest", "The last race has fast."),
        ("refused", "It has no result in the race: it is too small"),
        ("wrong", "It has no result in the race: accuracy fell"),
        (None, "The recipe has no `choose`"),
    ],
)
def test_what_cannot_be_chosen_is_said_and_not_counted(run, name, said):
    with pytest.raises(HoneError) as caught:
        run(name)
    assert (caught.value.slug, said in caught.value.why) == ("candidate-unknown", True), caught.value.why
    assert not (run.store.root / "choices.jsonl").exists()


def test_files_that_are_gone_are_told_before_the_choice_counts(run):
    (run.store.root / "objects").rename(run.store.root / "gone")
    with pytest.raises(HoneError) as caught:
        run("fast")
    assert caught.value.slug == "store-missing"
    assert not (run.store.root / "choices.jsonl").exists()
