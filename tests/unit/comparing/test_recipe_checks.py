from __future__ import annotations

import pytest

from kedro_hone.comparing.recipe_checks import check_provable, check_recipe
from kedro_hone.core.errors import HoneError
from kedro_hone.core.stats.intervals import smallest_provable_drop
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.samples import TrackedFile
from kedro_hone.recipe.schema import read_recipe

BOUND = smallest_provable_drop(300, share_confidence(0.95, finalists=2))
"""What 300 rows prove at best for each of two finalists."""


def check(drop):
    check_provable(300, read_recipe({"model": {"uri": "m"}, "gates": {"drop": drop}, "confirm": {"finalists": 2}}))


def test_only_a_limit_above_the_bound_is_proved():
    check(BOUND * (1 + 1e-12))
    with pytest.raises(HoneError) as caught:
        check(BOUND)
    assert caught.value.slug == "gate-unprovable"
    assert f"still reaches {BOUND:.4g} (confidence 0.95, shared by 2 finalists)" in caught.value.why


def test_a_row_may_lose_more_than_one(caplog):
    recipe = read_recipe({"model": {"uri": "m"}, "gates": {"drop": 1.5 * BOUND}, "confirm": {"finalists": 2}})
    check_provable(300, recipe, span=1.4)
    assert not caplog.records

    check_provable(300, recipe, span=1.9)  # of another split: it may be less on this one
    (record,) = caplog.records
    assert "300 gate rows can hardly prove a drop under" in record.getMessage()
    assert f"where one may lose 1.9 the interval still reaches {1.9 * BOUND:.4g}" in record.getMessage()

    with pytest.raises(HoneError) as caught:
        check_provable(300, recipe, span=3.2, certain=1.6)
    assert caught.value.slug == "gate-unprovable"
    needed = int(caught.value.hint.split()[3])
    check_provable(needed, recipe, span=3.2, certain=3.2)
    with pytest.raises(HoneError):
        check_provable(needed - 1, recipe, span=3.2, certain=3.2)


def test_a_limit_above_the_span_is_proved_by_any_rows():
    recipe = read_recipe({"model": {"uri": "m"}, "gates": {"drop": 0.5}})
    check_provable(20, recipe, span=0.01, certain=0.01)


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
    with pytest.raises(HoneError) as caught:
        check_recipe(gate=gate, recipe=read_recipe(recipe), store=Store(tmp_path / "store"), run=run)
    assert not run.folder.exists()
    return caught.value


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


def test_names_are_not_asked_for_where_nothing_is_published(tmp_path):
    for publish in ({"enabled": False, "alias": "3"}, {}):
        recipe = {"model": {"uri": "models/m"}, "program": {"name": "nowhere"}, "publish": publish}
        assert check_names(tmp_path, recipe).slug == "program-unknown"  # which is found after the names


def test_a_registry_without_aliases_cannot_say_what_the_winner_has_to_beat(tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_hone.adaptors.registries.local.registry.LocalRegistry.list_aliases", None)
    error = check_names(tmp_path, {"model": {"uri": "models/m"}, "gates": {"beat_published": True}})
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
