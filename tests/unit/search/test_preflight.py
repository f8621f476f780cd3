from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError, combine
from hone_runtime.values.samples import Score, TrackedFile
from kedro_hone.core.stats.intervals import smallest_provable_drop
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search import preflight
from kedro_hone.search.preflight import check_provable, find_problems
from kedro_hone.search.slices import round_up

BOUND = smallest_provable_drop(300, share_confidence(0.95, finalists=2))
"""What 300 rows prove at best for each of two finalists."""


def check(drop):
    check_provable(300, read_recipe({"model": {"uri": "m"}, "gates": {"drop": drop}, "confirm": {"finalists": 2}}))


def test_only_a_limit_above_the_bound_is_proved():
    check(BOUND * (1 + 1e-12))
    with pytest.raises(HoneError) as caught:
        check(BOUND)
    assert caught.value.slug == "gate-unprovable"
    assert f"still reaches {round_up(BOUND)} (confidence 0.95, shared by 2 finalists)" in caught.value.why


def score(**told):
    return Score(**{"metric": "r2", "value": 0.9, "kind": "bootstrap", "n": 200, **told})


def read(drop, **gates):
    return read_recipe({"model": {"uri": "m"}, "gates": {"drop": drop, **gates}, "confirm": {"finalists": 2}})


def test_more_than_one_may_be_lost_of_a_metric_without_an_end_at_zero(caplog):
    recipe = read(1.5 * BOUND)
    check_provable(300, recipe, score=score(span=1.4))
    assert not caplog.records

    check_provable(300, recipe, score=score(span=1.9))  # of another split: it may be less on this one
    (record,) = caplog.records
    assert "300 gate rows probably cannot prove a drop under" in record.getMessage()
    assert "by the metric's span on the search split, 1.9 (" in record.getMessage()
    least = float(record.getMessage().split("hone.gates.drop above ")[1].rstrip("."))
    assert 1.9 * BOUND <= least < 1.001 * 1.9 * BOUND

    needed = int(record.getMessage().split("Use at least ")[1].split()[0])
    for rows, warned in ((needed, 1), (needed - 1, 2)):
        check_provable(rows, recipe, score=score(span=1.9))
        assert len(caplog.records) == warned


def test_one_is_certain_of_a_metric_that_is_best_at_one(caplog):
    with pytest.raises(HoneError, match="300 gate rows cannot prove"):
        check_provable(300, read(BOUND), score=score(span=1.0))
    with pytest.raises(HoneError, match="300 gate rows cannot prove"):
        check_provable(300, read(BOUND), score=score(span=1.0, kind="proportion", higher_is_better=False))
    check_provable(300, read(BOUND), score=score(span=14000.0, value=812.0, higher_is_better=False))
    assert "probably cannot" in caplog.text


def test_a_limit_above_the_span_is_proved_by_any_rows(caplog):
    check_provable(20, read(0.5), score=score(span=0.01, value=3.0))
    check_provable(20, read(0.5), score=score(span=None, value=3.0))
    assert not caplog.records


def test_a_graded_metric_needs_some_rows_whatever_the_limit():
    with pytest.raises(HoneError) as caught:
        check_provable(19, read(0.5), score=score(span=0.01))
    assert caught.value.slug == "gate-unprovable"
    assert "19 gate rows are too few for an interval of r2" in caught.value.what
    assert "20 rows" in caught.value.why


@pytest.mark.parametrize(("other", "key"), [(None, "hone.program.metric."), ("accuracy", "hone.gates.drops.accuracy.")])
def test_where_nothing_can_be_lost_nothing_is_proved(other, key):
    recipe = read(0.5, drops={"accuracy": 0.5})
    with pytest.raises(HoneError) as caught:
        check_provable(300, recipe, score=score(metric="accuracy", value=0.0, kind="proportion"), other=other)
    assert (caught.value.slug, caught.value.what) == (
        "gate-unprovable",
        "The source's accuracy is 0 on the search split.",
    )
    assert caught.value.hint.endswith(key)


@pytest.mark.parametrize(
    ("value", "said"), [(0.0125757, "0.01258"), (22491.2, "22500"), (0.5, "0.5"), (1.0, "1"), (9.9991, "10")]
)
def test_a_bound_is_rounded_up(value, said):
    assert round_up(value) == said


def test_another_metric_has_a_bound_of_its_own():
    recipe = read_recipe({"model": {"uri": "m"}, "gates": {"drop": 0.5, "drops": {"agreement": 0.001}}})
    check_provable(300, recipe)
    with pytest.raises(HoneError) as caught:
        check_provable(300, recipe, other="agreement")
    assert "a drop under 0.001 of agreement" in caught.value.what
    assert "hone.gates.drops.agreement above" in caught.value.hint


def check_names(tmp_path, recipe):
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    gate = TrackedFile(path="gate.csv", source="gate.csv", repo=".", rev="HEAD", resolved_rev="0", md5="0")
    asked = read_recipe({"program": {"name": "nowhere"}, **recipe})
    found = find_problems(gate=gate, recipe=asked, store=Store(tmp_path / "store"), run=run)
    assert not run.folder.exists()
    return next(error for error in found if error.slug not in {"model-unknown", "registry-missing"})


@pytest.mark.parametrize(
    ("model", "publish", "says"),
    [
        ("models/m", {"alias": "3"}, "hone.publish.alias: '3'"),
        ("models/m", {"name": "a/.."}, "hone.publish.name: 'a/..'"),
        ("models:/m/1", {"alias": "latest"}, "'latest' alias name (case insensitive) is reserved"),
        ("models:/m/1", {"name": "a/b"}, "cannot contain '/' or ':'"),
        ("nowhere:/m/1", {}, "scheme 'nowhere'"),
    ],
)
def test_names_that_the_registry_refuses_are_refused_before_the_pull(tmp_path, model, publish, says):
    error = check_names(tmp_path, {"model": {"uri": model}, "publish": publish})
    assert error.slug in {"recipe-invalid", "registry-unknown"}
    assert says in error.why


def test_every_problem_is_found_at_once(tmp_path):
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = {"model": {"uri": "models/m"}, "program": {"name": "nowhere"}, "publish": {"alias": "3"}}
    gate = TrackedFile(path="gate.csv", source="gate.csv", sha256="sha256:0")
    found = find_problems(gate=gate, recipe=read_recipe(recipe), store=Store(tmp_path / "store"), run=run)
    assert [error.slug for error in found] == ["model-unknown", "recipe-invalid", "program-unknown"]
    error = combine(found)
    assert error.slug == "start-refused"
    assert [line.strip()[:2] for line in error.why.split("\n")] == ["1.", "2.", "3."]
    assert combine(found[:1]) is found[0]
    assert combine([found[1], found[1]]) is found[1]


def test_names_are_not_asked_for_where_nothing_is_published(tmp_path):
    for publish in ({"enabled": False, "alias": "3"}, {}):
        recipe = {"model": {"uri": "models/m"}, "program": {"name": "nowhere"}, "publish": publish}
        assert check_names(tmp_path, recipe).slug == "program-unknown"  # which is found after the names


def test_a_registry_without_aliases_cannot_say_what_the_winner_has_to_beat(tmp_path, monkeypatch):
    (tmp_path / "m.onnx").touch()
    monkeypatch.setattr("kedro_hone.adaptors.registries.local.registry.LocalRegistry.list_aliases", lambda *_: None)
    error = check_names(tmp_path, {"model": {"uri": "m.onnx"}, "gates": {"beat_published": True}})
    assert (error.slug, error.what) == ("recipe-invalid", "gates.beat_published cannot be judged.")


def test_what_is_published_is_asked_before_the_pull(tmp_path, monkeypatch):
    def fail(*_):
        raise HoneError("registry-offline", "The registry is offline.", why="So it is.", hint="Go online.")

    (tmp_path / "m.onnx").touch()
    monkeypatch.setattr("kedro_hone.adaptors.registries.local.registry.LocalRegistry.list_aliases", fail)
    assert (
        check_names(tmp_path, {"model": {"uri": "m.onnx"}, "gates": {"beat_published": True}}).slug
        == "registry-offline"
    )


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("balanced_accuracy", "The rarest class has 30 of them"),
        ("neg_balanced_accuracy", "The rarest class has 30 of them"),
        ("roc_auc", "30 gate rows of the rarest class"),
        ("f1_macro", "30 gate rows of the rarest class"),
    ],
)
@pytest.mark.parametrize("place", ["drop", "drops"])
def test_rows_of_a_rare_class_that_cannot_prove_the_limit_are_refused_before_the_pull(tmp_path, place, metric, words):
    limits = {"drop": 0.02} if place == "drop" else {"drop": 0.5, "drops": {metric: 0.02}}
    np.savez(tmp_path / "gate.npz", x=np.zeros((900, 2), np.float32), y=np.arange(900) % 30 == 0)
    content = TrackedFile(path=str(tmp_path / "gate.npz"), source="gate.npz", sha256=f"sha256:{'0' * 64}")
    asked = {"name": "tabular-classification", "metric": metric if place == "drop" else None}
    recipe = read_recipe({"model": {"uri": "m"}, "program": asked, "gates": limits})
    run = RunFolder(root=tmp_path / "run", run_id="r", project=tmp_path)
    errors = find_problems(gate=content, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    found = next(error for error in errors if error.slug == "gate-unprovable")
    assert words in f"{found.what} {found.why}"
    assert (f"gates.drops.{metric}" if place == "drops" else "gates.drop above") in found.hint


@pytest.mark.parametrize(("module", "slugs"), [("{project}/net.py:Net", ["image-leaks"]), ("net.py:Net", [])])
def test_a_path_that_no_image_may_contain_is_known_before_the_search(tmp_path, monkeypatch, module, slugs):
    monkeypatch.setattr(preflight, "check_place", lambda _: None)
    publish = {"export": ["image"], "image": {"push": "localhost:5000/digits:4"}}
    model = {"uri": "models:/digits/1", "module": module.format(project=tmp_path)}
    recipe = read_recipe({"model": model, "publish": publish, "trust": ["module"]})
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    problems = find_problems(gate=None, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    assert [one.slug for one in problems if one.slug.startswith("image-")] == slugs
