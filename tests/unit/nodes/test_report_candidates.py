"""What is recorded of one candidate: the validation and its result in the race, joined."""

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Interval, Latency, Quality, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate, Failed, FailureClass, Refused
from kedro_hone.nodes.report import join_candidate

QUALITY = Quality(
    metric="accuracy",
    split="gate",
    source=0.98,
    candidate=0.97,
    drop=Interval(estimate=0.01, low=0.004, high=0.016, confidence=0.983),
    limit=0.02,
    n=500,
)


def make_validation(outcome, status, **changes):
    return Validation(candidate=Candidate(id="onnx.x", route=("a.b", "c.d"), outcome=outcome), status=status, **changes)


def make_artifact():
    return Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())


def test_the_race_has_the_last_word_on_a_valid_candidate():
    standing = Standing(id="onnx.x", status=Status.DROPPED, rounds=5, reason="slower than the leader")
    record = join_candidate(make_validation(make_artifact(), Status.MEASURED, quality=QUALITY), standing)
    assert (record.status, record.reason, record.rounds) == (Status.DROPPED, "slower than the leader", 5)
    assert record.quality == QUALITY


def test_a_valid_candidate_without_a_standing_was_not_tried():
    record = join_candidate(make_validation(make_artifact(), Status.MEASURED), None)
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
    validation = make_validation(make_artifact(), Status.MEASURED, run="1", since="2", size_bytes=5)
    record = join_candidate(validation, standing)
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
    record = join_candidate(make_validation(outcome, Status.FAILED, slug=slug, reason="too long"), None)
    assert (record.status, record.failure_class, record.reason) == (Status.FAILED, expected, "too long")


def test_a_refusal_has_no_failure_class():
    outcome = Refused(by="c.d", slug="no-gpu", reason="no GPU")
    record = join_candidate(make_validation(outcome, Status.REFUSED, slug="no-gpu", reason="no GPU"), None)
    assert (record.status, record.failure_class) == (Status.REFUSED, None)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({}, "may race"),
        ({"a.b": {"reduce_range": False}}, "may race"),
        ({"a.b": {"reduce_range": True}}, "may race Options whose default depends on the CPU: a.b: reduce_range=true."),
    ],
)
def test_what_the_machine_decided_is_recorded_and_said(options, note):
    artifact = make_artifact().model_copy(update={"metadata": {"machine_options": options} if options else {}})
    record = join_candidate(make_validation(artifact, Status.MEASURED, note="may race"), None)
    assert (record.machine_options, record.note) == (options, note)


NO_CACHE = "It has no cache of keys and values, so generate runs the whole sequence each time: "


@pytest.mark.parametrize(
    ("auto_class", "cache", "note"),
    [
        ("AutoModelForCausalLM", {"layers": 2}, "It has a cache of keys and values for generate."),
        ("AutoModelForCausalLM", {"absent": "a window slides"}, f"{NO_CACHE}a window slides."),
        ("AutoModelForCausalLM", None, f"{NO_CACHE}its converter makes none."),
        ("AutoModel", None, ""),
    ],
)
def test_whether_a_language_model_has_a_cache_is_said(auto_class, cache, note):
    metadata = {"transformers": {"auto_class": auto_class}} | ({"cache": cache} if cache else {})
    artifact = make_artifact().model_copy(update={"metadata": metadata})
    assert join_candidate(make_validation(artifact, Status.MEASURED, note=""), None).note == note
