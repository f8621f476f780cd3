"""What a failure on a probe means: a limit, a candidate that crashes, or nothing that is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kedro_hone.building.probing import Probing
from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.core.values.outcome import Failed, FailureClass
from kedro_hone.core.values.samples import ProbeRows, Reference

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
        setting = SimpleNamespace(store=SimpleNamespace(locate_tree=lambda _: tmp_path), source=ARTIFACT)
        probing = Probing(ARTIFACT, reference, setting, exact=False, folder=Path())
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
