"""Slices that are too small for their limit: refused before anything is built, by name."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.samples import Score, TrackedFile
from hone_runtime.values.slices import SliceRows
from kedro_hone.core.stats.intervals import needed_rows, smallest_provable_drop
from kedro_hone.core.stats.levels import share_among_slices, share_confidence
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.preflight import find_problems
from kedro_hone.search.slices import check_slices

LEVEL = share_among_slices(share_confidence(0.95, finalists=2), slices=2)
LEAST = needed_rows(0.05, LEVEL)


def read(drop=0.05):
    gates = {"drop": 0.5, "slices": {"by": "site", "drop": drop}}
    return read_recipe({"model": {"uri": "m"}, "gates": gates, "confirm": {"finalists": 2}})


def check(*sizes, drop=0.05, **more):
    check_slices([SliceRows(name=f"s{at}", n=n) for at, n in enumerate(sizes)], read(drop), **more)


def score(**told):
    return Score(**{"metric": "r2", "value": 0.9, "kind": "bootstrap", "n": 200, **told})


def test_the_smallest_slice_and_the_needed_rows_are_named():
    check(LEAST, LEAST)
    with pytest.raises(HoneError) as caught:
        check(LEAST, LEAST - 1)
    assert caught.value.slug == "gate-unprovable"
    assert caught.value.what.startswith(f"{LEAST - 1} gate rows of the slice site = s1 cannot prove a drop under 0.05")
    assert "shared by 2 finalists and 2 slices" in caught.value.why
    assert f"at least {LEAST} rows of each slice" in caught.value.hint


def test_the_bound_that_is_named_can_be_proved():
    with pytest.raises(HoneError) as caught:
        check(50, 40)
    bound = float(caught.value.hint.split("hone.gates.slices.drop above ")[1].rstrip("."))
    assert smallest_provable_drop(40, LEVEL) <= bound
    assert "1 other slice is too small as well" in caught.value.why
    check(50, 40, drop=bound)


def test_a_graded_metric_needs_some_rows_in_each_slice():
    with pytest.raises(HoneError, match="needs 20 rows at least"):
        check(19, 500, drop=0.9, score=score(span=1.0))


def test_a_span_that_is_estimated_is_warned_of(caplog):
    check(LEAST, LEAST, score=score(span=3.0, value=800.0, higher_is_better=False))
    assert "of the slice site = s0 probably cannot prove a drop under 0.05" in caplog.text


def test_nothing_is_checked_without_slices_or_a_known_span():
    check()
    check(1, 1, score=score(span=None))
    check_slices([SliceRows(name="a", n=1)], read_recipe({"model": {"uri": "m"}}))


@pytest.mark.parametrize("metric", [None, "balanced_accuracy"])
def test_a_run_says_so_before_the_pull(tmp_path, metric):
    labels, site = np.arange(900) % 2, np.where(np.arange(900) < 30, "small", "large")
    np.savez(tmp_path / "gate.npz", x=np.zeros((900, 2), np.float32), y=labels, site=site)
    content = TrackedFile(path=str(tmp_path / "gate.npz"), source="gate.npz", sha256=f"sha256:{'0' * 64}")
    program = {"name": "tabular-classification", "metric": metric}
    gates = {"drop": 0.5, "slices": {"by": "site", "drop": 0.05}}
    recipe = read_recipe({"model": {"uri": "m"}, "program": program, "gates": gates})
    run = RunFolder(root=tmp_path / "run", run_id="r", project=tmp_path)
    errors = find_problems(gate=content, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    found = next(error for error in errors if error.slug == "gate-unprovable")
    assert "30 gate rows of the slice site = small" in found.what
