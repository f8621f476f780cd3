"""What a failure on a probe means: a limit, a candidate that crashes, or nothing that is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.outcome import Failed, FailureClass
from hone_runtime.values.samples import ProbeRows, Reference
from kedro_hone.search.comparison.agreement import Difference
from kedro_hone.search.validation.probe_outputs import Probing

SPEC = TensorSpec(name="x", dtype="float32", shape=("batch", 2))
ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(SPEC,), outputs=(SPEC,), runtime="onnxruntime")
NAMES = ("zeros", "mask with a hole", "length of 1")


@pytest.fixture
def make(tmp_path):
    """Return a function that makes the probing of a candidate that failed on its first probes."""

    def make(*failures):
        probes = tuple(ProbeRows(name=name, feeds="f", outputs="o", extreme=False) for name in NAMES)
        reference = Reference(
            outputs="o", digest="sha256:0", metric="m", value=1, kind="mean", n=1, cold_start_ms=1,
            peak_memory_bytes=1, probes=probes,
        )  # fmt: skip
        store = SimpleNamespace(locate_tree=lambda _: tmp_path)
        recipe = SimpleNamespace(model=SimpleNamespace(ranges={}))
        context = SimpleNamespace(store=store, source=ARTIFACT, recipe=recipe, locate_noise=lambda _: None)
        probing = Probing(ARTIFACT, reference, context, exact=False, folder=Path())
        failed = (Failed(by="it", failure=failure, reason="so it is") for failure in failures)
        probing._found = dict(zip(NAMES, failed, strict=False))
        return probing

    return make


def test_an_error_where_the_source_returns_numbers_is_a_limit(make):
    probing = make(*[FailureClass.CRASH] * 3)
    found = probing.judge({})
    assert (probing.ended, found.wrong) == (None, "")
    assert found.limits[1] == "it fails on mask with a hole, which the source takes: so it is"


def test_a_candidate_that_ends_its_worker_on_a_probe_is_wrong(make):
    """The probes after it were not run."""
    probing = make(FailureClass.CRASH)
    assert probing.ended is None
    assert probing.judge({}).wrong == "on a probe, it crashes on zeros, which the source takes"


@pytest.mark.parametrize("failure", [one for one in FailureClass if one.transient])
def test_of_a_candidate_that_was_ended_from_outside_nothing_is_known(make, failure):
    """An interrupt, a budget that ended, a time-out, no memory, a full disk: it is neither right nor wrong."""
    assert make(FailureClass.CRASH, failure).ended.failure is failure


@pytest.fixture
def judge(tmp_path):
    """Return a function that judges what a candidate returns for one probe, whose rows and due outputs are given."""

    def judge(rows, due, made, *, exact, trained=False, unlike_data=False):
        for name, arrays in (("feeds", {"x": rows}), ("due", due), ("made", made), ("usual", USUAL)):
            np.savez(tmp_path / f"{name}.npz", **arrays)
        specs = [TensorSpec(name=name, dtype=str(array.dtype), shape=("batch", 2)) for name, array in due.items()]
        probe = ProbeRows(name="zeros", feeds="feeds.npz", outputs="due.npz", extreme=False, unlike_data=unlike_data)
        probing = object.__new__(Probing)
        probing._artifact, probing._exact = ARTIFACT.model_copy(update={"outputs": tuple(specs)}), exact
        if trained:
            probing._artifact = probing._artifact.model_copy(update={"metadata": {"trained": {"a.b": {}}}})
        gates = SimpleNamespace(conversion=None, unscored=0.1)
        probing._context = SimpleNamespace(
            recipe=SimpleNamespace(gates=gates, model=SimpleNamespace(ranges={"x": (0, 9)})), source=ARTIFACT
        )
        probing._noise, probing._outputs = None, tmp_path / "usual.npz"
        probing._tree, probing._probes, probing._found = tmp_path, [probe], {"zeros": tmp_path / "made.npz"}
        usual = [Difference(output=name, discrete=array.dtype.kind == "i", of=9) for name, array in due.items()]
        return probing.judge({"one": usual})

    return judge


USUAL = {name: np.array([[0], [1]]) for name in ("places", "label", "count")}
"""What the source returned for usual rows."""

SCORES = np.full((5, 2), 0.5, np.float32)
FIRST, LAST = np.tile([0, 1], (5, 1)), np.tile([1, 0], (5, 1))


@pytest.mark.parametrize("exact", [True, False])
def test_places_of_equal_scores_are_a_limit_where_all_rows_are_the_same(judge, exact):
    """The largest of scores that are all equal may be any: each library has its own order."""
    zeros, due, made = np.zeros((5, 3)), {"scores": SCORES, "places": FIRST}, {"scores": SCORES, "places": LAST}
    found = judge(zeros, due, made, exact=exact)
    assert found.wrong == ""
    assert found.limits[0].startswith("on zeros, places ")
    assert "of equal scores any may be the largest" in found.limits[0]
    assert found.limits[-1] == "x was probed from 0 to 9 only (model.ranges)"
    assert "places" in judge(np.arange(15.0).reshape(5, 3), due, made, exact=exact).wrong
    other = {**made, "scores": SCORES + np.float32(9)}
    assert "scores" in judge(zeros, due, other, exact=exact).wrong


@pytest.mark.parametrize("wrong", [900_000, -2147483648])
def test_a_count_next_to_equal_scores_is_no_place(judge, wrong):
    due = {"scores": SCORES, "count": np.full((5, 1), 1)}
    assert "count" in judge(np.zeros((5, 3)), due, {**due, "count": np.full((5, 1), wrong)}, exact=False).wrong
    assert "count" in judge(np.zeros((5, 3)), {**due, "count": due["count"] + wrong}, due, exact=True).wrong


@pytest.mark.parametrize(
    ("rows", "scores"),
    [(5, None), (5, np.tile(np.array([0.9, 0.1], np.float32), (5, 1))), (1, SCORES[:1])],
    ids=["no scores", "unequal scores", "one row"],
)
def test_without_equal_scores_in_two_rows_another_class_is_wrong(judge, rows, scores):
    """A count of 10^12 that becomes the least of its type, and a request that is approved, are no ties."""
    shown = {} if scores is None else {"scores": scores}
    found = judge(np.zeros((rows, 3)), {**shown, "label": FIRST[:rows]}, {**shown, "label": LAST[:rows]}, exact=False)
    assert "label" in found.wrong


@pytest.mark.parametrize(("trained", "unlike_data", "dropped"), [(0, 1, True), (1, 0, True), (1, 1, False)])
def test_only_a_trained_candidate_may_differ_and_only_on_rows_unlike_the_data(judge, trained, unlike_data, dropped):
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    due, made = {"scores": rows + 1}, {"scores": -rows - 1}
    found = judge(rows, due, made, exact=False, trained=trained, unlike_data=unlike_data)
    assert bool(found.wrong) is dropped
    assert any("rows unlike the data" in limit for limit in found.limits) is not dropped
