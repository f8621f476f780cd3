import pytest

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import (
    Finalist,
    Interval,
    Latency,
    Quality,
    Speedup,
    Standing,
    Status,
    Validation,
)
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass, Refused
from kedro_hone.report.conversion import record_candidate, record_finalist, record_quality, record_speedup

QUALITY = Quality(
    metric="accuracy",
    split="gate",
    source=0.98,
    candidate=0.97,
    drop=Interval(estimate=0.01, low=0.004, high=0.016, confidence=0.983),
    limit=0.02,
    n=500,
)
SPEEDUP = Speedup(shape="batch1", ratio=Interval(estimate=2.0, low=1.9, high=2.1), noise_floor=1.01, launches=7)


def make_validation(outcome, status, **changes):
    return Validation(candidate=Candidate(id="onnx.x", route=("a.b", "c.d"), outcome=outcome), status=status, **changes)


def make_artifact():
    return Artifact(path="x", format="onnx", digest="sha256:0", inputs=(), outputs=())


def test_a_speedup_is_flattened():
    record = record_speedup(SPEEDUP, baseline="eager")
    assert (record.estimate, record.low, record.high, record.confidence) == (2.0, 1.9, 2.1, 0.95)
    assert (record.noise_floor, record.launches, record.baseline, record.shape) == (1.01, 7, "eager", "batch1")


def test_a_metric_is_flattened():
    record = record_quality("onnx.x", QUALITY, provable=0.006)
    assert (record.candidate, record.split, record.source, record.winner) == ("onnx.x", "gate", 0.98, 0.97)
    assert (record.drop, record.low, record.high, record.confidence) == (0.01, 0.004, 0.016, 0.983)
    assert (record.limit, record.provable, record.n) == (0.02, 0.006, 500)


def test_the_race_has_the_last_word_on_a_valid_candidate():
    standing = Standing(id="onnx.x", status=Status.DROPPED, rounds=5, reason="slower than the leader")
    record = record_candidate(make_validation(make_artifact(), Status.MEASURED, quality=QUALITY), standing)
    assert (record.status, record.reason, record.rounds) == (Status.DROPPED, "slower than the leader", 5)
    assert record.quality is not None


def test_a_valid_candidate_without_a_standing_was_not_tried():
    record = record_candidate(make_validation(make_artifact(), Status.MEASURED), None)
    assert record.status is Status.NOT_TRIED
    assert record.reason


def test_a_measured_candidate_needs_no_reason():
    standing = Standing(
        id="onnx.x",
        status=Status.MEASURED,
        rounds=30,
        ratios={"batch1": 2.0},
        latency=(Latency(shape="batch1", p50_ms=1.0, n=100),),
        objective=Interval(estimate=2.0, low=1.9, high=2.1),
    )
    record = record_candidate(
        make_validation(make_artifact(), Status.MEASURED, run="1", since="2", size_bytes=5), standing
    )
    assert (record.status, record.reason, record.failure_class) == (Status.MEASURED, "", None)
    assert (record.speedup, record.ratios, record.cached, record.size_bytes) == (
        standing.objective, {"batch1": 2.0}, True, 5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "slug", "expected"),
    [
        (Failed(by="c.d", failure=FailureClass.TIME_OUT, reason="too long"), "", "time-out"),
        (make_artifact(), "numerics", "numerics"),
    ],
)
def test_a_failure_keeps_its_class(outcome, slug, expected):
    record = record_candidate(make_validation(outcome, Status.FAILED, slug=slug, reason="too long"), None)
    assert (record.status, record.failure_class, record.reason) == (Status.FAILED, expected, "too long")


def test_a_refusal_has_no_failure_class():
    outcome = Refused(by="c.d", slug="no-gpu", reason="no GPU")
    record = record_candidate(make_validation(outcome, Status.REFUSED, slug="no-gpu", reason="no GPU"), None)
    assert (record.status, record.failure_class) == (Status.REFUSED, None)


def test_a_finalist_is_flattened():
    finalist = Finalist(id="onnx.x", speedups=(SPEEDUP,), latency=(), launches=7)
    record = record_finalist(finalist, baseline="eager")
    assert record.speedups == (record_speedup(SPEEDUP, baseline="eager"),)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({}, "may race"),
        ({"a.b": {"reduce_range": False}}, "may race"),
        ({"a.b": {"reduce_range": True}}, "may race For the CPU, a.b: reduce_range=true."),
    ],
)
def test_what_the_machine_decided_is_recorded_and_said(options, note):
    artifact = make_artifact().model_copy(update={"metadata": {"machine_options": options} if options else {}})
    record = record_candidate(make_validation(artifact, Status.MEASURED, note="may race"), None)
    assert (record.machine_options, record.note) == (options, note)
