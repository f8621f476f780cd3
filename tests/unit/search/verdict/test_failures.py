"""One reason of many candidates is told once."""

from __future__ import annotations

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status, Validation
from hone_runtime.values.outcome import Candidate, Failed, FailureClass, Refused
from kedro_hone.search.verdict.failures import list_shared

ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())
WHY = "Constraints violated (batch)!"


def failed(name, *, by="pytorch.onnx", reason=WHY, status=Status.FAILED):
    outcome = Failed(by=by, failure=FailureClass.CONVERT, reason=reason)
    candidate = Candidate(id=name, route=(by, name), outcome=outcome)
    return Validation(candidate=candidate, status=status, reason=f"{by}: {reason}")


def wrong(name, reason="output 'y' at batch1: its shape is (2, 3), the source's is (1, 3)"):
    candidate = Candidate(id=name, route=(name,), outcome=ARTIFACT)
    return Validation(candidate=candidate, status=Status.FAILED, reason=reason)


def test_a_failure_of_one_step_is_told_once_with_the_step():
    assert list_shared([failed(name) for name in "abcd"]) == [
        f"4 candidates failed at pytorch.onnx for one reason: {WHY}"
    ]


def test_the_same_reason_of_other_steps_is_one_too_and_the_most_frequent_comes_first():
    many = [wrong(name, f"{name}: too large") for name in "abcd"]
    told = list_shared([*(failed(name, by=by) for name, by in (("x", "a.a"), ("y", "b.b"), ("z", "b.b"))), *many])

    assert told == [
        "4 candidates failed for one reason: too large",
        f"3 candidates failed at a.a, b.b for one reason: {WHY}",
    ]


def test_few_and_refused_and_good_ones_are_not():
    refused = [
        Validation(
            candidate=Candidate(id=name, route=(name,), outcome=Refused(by="a", slug="format", reason="takes onnx")),
            status=Status.REFUSED,
        )
        for name in "abc"
    ]
    good = [
        Validation(candidate=Candidate(id=name, route=(), outcome=ARTIFACT), status=Status.MEASURED) for name in "abc"
    ]

    assert list_shared([failed("a"), failed("b"), wrong("c"), *refused, *good]) == []


def test_a_long_reason_is_cut():
    (told,) = list_shared([failed(name, reason="x" * 999) for name in "abc"])

    assert len(told) < 400
    assert told.endswith("x…")


def refused(name, *, by="sklearn.onnx", slug="refused", reason="there is no converter to ONNX for the step 'knn'"):
    outcome = Refused(by=by, slug=slug, reason=reason)
    return Validation(candidate=Candidate(id=name, route=(by,), outcome=outcome), status=Status.REFUSED, reason=reason)


def test_where_no_candidate_could_be_compared_each_reason_is_told_and_other_formats_last():
    others = [refused(name, by="a", slug="format", reason="takes keras") for name in "xyzw"]

    assert list_shared([*others, refused("a"), refused("b"), failed("c")]) == [
        "2 candidates were refused at sklearn.onnx for one reason: there is no converter to ONNX for the step 'knn'",
        f"1 candidate failed at pytorch.onnx: {WHY}",
        "4 candidates were refused at a for one reason: takes keras",
    ]
