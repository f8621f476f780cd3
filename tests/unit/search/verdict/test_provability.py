from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.class_rows import ClassRows
from hone_runtime.values.measurement import Interval, Quality, Status, Validation
from hone_runtime.values.outcome import Candidate
from hone_runtime.values.samples import Split
from kedro_hone.core.stats.intervals import interval_of_paired_proportions
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.verdict.provability import choose_finalists, is_provable, predict_end


def make_quality(lost=0, gained=0, n=345, **fields):
    drop = interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=0.95)
    given = {"kind": "proportion", "lost": lost, "gained": gained, **fields}
    return Quality(metric="accuracy", split="search", source=1.0, candidate=1.0, drop=drop, n=n, **given)


def make_validation(quality):
    outcome = Artifact(format="toy", digest="sha256:1", inputs=(), outputs=())
    candidate = Candidate(id="a", route=("a",), outcome=outcome)
    return Validation(candidate=candidate, status=Status.MEASURED, quality=quality)


def make_context(*, search=345, gate=450, **gates):
    recipe = read_recipe({"model": {"uri": "models:/x/1"}, "gates": {"drop": 0.02, **gates}})
    splits = {
        name: Split(name=name, n=n, path="x", md5="", rev="") for name, n in {"search": search, "gate": gate}.items()
    }
    return SimpleNamespace(recipe=recipe, samples=SimpleNamespace(splits=splits))


@pytest.mark.parametrize(("lost", "gained", "provable"), [(0, 0, True), (0, 1, True), (1, 0, False), (4, 0, False)])
def test_a_drop_is_provable_if_the_gates_interval_of_the_same_drop_lies_under_the_limit(lost, gained, provable):
    """The demo: 450 rows, 2 points, three finalists. A network that lost 1.2 points ended in no verdict."""
    assert is_provable(make_validation(make_quality(lost, gained)), make_context()) is provable


def test_more_rows_prove_the_same_drop():
    lost = make_validation(make_quality(3))
    assert [is_provable(lost, make_context(gate=rows)) for rows in (450, 4500)] == [False, True]


def test_without_a_score_or_a_gate_split_it_is_not_known():
    assert is_provable(make_validation(None), make_context())
    nothing = make_context()
    nothing.samples.splits.clear()
    assert is_provable(make_validation(make_quality(100)), nothing)


def test_each_other_metric_has_its_own_limit():
    quality = make_quality(0, others=(make_quality(4),))
    found = [is_provable(make_validation(quality), make_context(drops={"recall": one})) for one in (0.02, 0.2)]
    assert found == [False, True]


def test_a_metric_that_is_not_counted_gets_its_width_from_the_search_split():
    drop = Interval(estimate=0.01, low=-0.01, high=0.03, confidence=0.95)
    quality = make_quality(kind="mean").model_copy(update={"drop": drop})
    assert predict_end(quality, scale=4.0, confidence=0.95) == pytest.approx(0.01 + 0.01 + 0.01)
    noise = quality.model_copy(update={"provable": 0.02, "drop": drop.model_copy(update={"estimate": 0.01})})
    assert predict_end(noise, scale=4.0, confidence=0.95) == pytest.approx(0.01 + 0.005)


def test_a_balanced_accuracy_is_predicted_by_the_rows_of_each_class():
    classes = tuple(
        ClassRows(name=name, n=100, right=90, lost=lost, gained=0) for name, lost in {"a": 0, "b": 5}.items()
    )
    quality = make_quality(kind="balanced", classes=classes)
    ends = [predict_end(quality, scale=scale, confidence=0.95) for scale in (1.0, 4.0, 1e-9)]
    assert 0.025 < ends[1] < ends[0] < ends[2]


@pytest.mark.parametrize(
    ("safe", "chosen"), [({"a"}, "abc"), ({"c"}, "abc"), ({"d", "e"}, "abd"), (set(), "abc"), ({"z"}, "abc")]
)
def test_the_last_place_is_for_the_first_that_is_safe(safe, chosen):
    assert choose_finalists([*"abcde"], safe, count=3) == [*chosen]


def test_the_only_place_is_for_one_that_is_safe():
    assert choose_finalists([*"abc"], {"b"}, count=1) == ["b"]
