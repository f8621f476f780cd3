from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from hone_runtime.values.composite import read_parts
from hone_runtime.values.measurement import RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate, Refused
from kedro_hone.nodes.compose import add_composite, compose, inherit
from kedro_hone.recipe.schema import read_recipe

IO = {"inputs": (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),), "outputs": ()}


def make(name, ratios, *, runtime="onnxruntime", form="onnx", status=Status.MEASURED, **attributes):
    artifact = Artifact(format=form, runtime=runtime, digest=f"sha256:{name}", **{**IO, **attributes})
    validation = Validation(candidate=Candidate(id=name, route=("what",), outcome=artifact), status=Status.MEASURED)
    return validation, Standing(id=name, status=status, rounds=5, ratios=ratios)


def race(*pairs):
    validations, standings = zip(*pairs, strict=True)
    took = {"source_latency": (), "rounds": 5, "seconds": 1.0, "budget_ended": False, "timings": "k"}
    return RaceResult(validations=validations, standings=standings, **took)


def refuse(result, **recipe):
    context = SimpleNamespace(recipe=read_recipe({"model": {"uri": "models:/x/1"}, **recipe}))
    found = compose(context=context, result=result)
    assert isinstance(found, Refused)
    return found.reason


BEST = {"batch1": 5.0, "batch64": 4.0}


@pytest.mark.parametrize(
    "rival",
    [
        make("b", {"batch1": 5.2, "batch64": 4.15}),
        make("b", {"batch1": 1.0, "batch64": 9.0}, runtime="iree", form="iree-vmfb"),
        make("b", {"batch1": 1.0, "batch64": 9.0}, form="openvino-ir"),
        make("b", {"batch1": 1.0, "batch64": 9.0}, static_shapes=(Shape(name="batch64", sizes={"batch": 64}),)),
        make("b", {"batch1": 1.0, "batch64": 9.0}, device="cuda"),
        make("b", {"batch1": 1.0, "batch64": 9.0}, metadata={"cache": {"layers": 2}}),
        make("b", {"batch1": 1.0, "batch64": 9.0}, inputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 4)),)),
        make("b", {}),
    ],
    ids=["noise", "environment", "format", "static", "device", "cache", "names", "not raced"],
)
def test_what_is_no_faster_or_cannot_be_a_part_is_none(rival):
    assert "no candidate is faster than a at any shape by 5%" in refuse(race(make("a", BEST), rival))


def test_what_misses_a_gate_by_its_validation_is_no_part():
    """Neither as the best of the race, nor as a part for a shape."""
    pairs = [
        make("large", {"batch1": 9.0, "batch64": 9.0}),
        make("a", BEST),
        make("wide", {"batch1": 1.0, "batch64": 9.0}),
    ]
    sizes = {"large": 3_000_000, "a": 500_000, "wide": 2_000_000}
    sized = [(one.model_copy(update={"size_bytes": sizes[one.candidate.id]}), standing) for one, standing in pairs]
    assert "no candidate is faster than a at any shape" in refuse(race(*sized), gates={"size_mb": 1.0})


def test_what_the_gate_cannot_prove_is_no_part_beside_others(monkeypatch):
    rival = make("b", {"batch1": 1.0, "batch64": 9.0})
    monkeypatch.setattr("kedro_hone.nodes.compose.is_provable", lambda one, _: one.candidate.id == "a")
    assert "no candidate is faster than a at any shape by 5%" in refuse(race(make("a", BEST), rival))


def test_what_failed_in_the_race_is_no_part():
    failed = make("b", {"batch1": 1.0, "batch64": 9.0}, status=Status.FAILED)
    assert "no candidate is faster" in refuse(race(make("a", BEST), failed))


def test_what_was_found_wrong_is_no_part():
    validation, standing = make("b", {"batch1": 1.0, "batch64": 9.0})
    wrong = (validation.model_copy(update={"status": Status.DROPPED}), standing)
    withheld = (validation.model_copy(update={"publishable": False}), standing)
    for bad in (wrong, withheld):
        assert "no candidate is faster" in refuse(race(make("a", BEST), bad))


def test_the_best_of_the_race_serves_all_other_shapes():
    best = make("a", BEST, static_shapes=(Shape(name="batch1", sizes={"batch": 1}),))
    assert "cannot be part of a composite" in refuse(race(best, make("b", {"batch1": 1.0, "batch64": 9.0})))
    assert "cannot be part of a composite" in refuse(race(make("a", BEST, status=Status.DROPPED)))


def test_with_one_finalist_there_is_none():
    other = make("b", {"batch1": 1.0, "batch64": 9.0}, runtime="openvino", form="openvino-ir")
    assert "one finalist" in refuse(race(make("a", BEST), other), confirm={"finalists": 1})


@pytest.mark.parametrize("status", Status)
def test_a_valid_composite_enters_first_and_no_other_races(status):
    result, outcome = race(make("a", BEST)), make("composite", {})[0].candidate.outcome
    candidate = Candidate(id="composite", route=("what",), outcome=outcome)
    entered = add_composite(context=None, result=result, validation=Validation(candidate=candidate, status=status))
    ids = [standing.id for standing in entered.standings]
    assert ids == (["composite", "a"] if status is Status.MEASURED else ["a"])
    assert "composite" in entered.validated


def test_where_there_is_none_nothing_changes():
    result, none = race(make("a", BEST)), Refused(by="composite", slug="nothing-to-do", reason="none")
    candidate = Candidate(id="composite", route=(), outcome=none)
    assert (
        add_composite(context=None, result=result, validation=Validation(candidate=candidate, status=Status.REFUSED))
        == result
    )


@pytest.mark.parametrize("parts", [None, [], {}, ["a"], [{"candidate": "a"}]], ids=str)
def test_parts_of_a_stranger_are_checked(parts):
    artifact = Artifact(format="composite", runtime="composite", digest="d", metadata={"parts": parts}, **IO)
    with pytest.raises(ValueError, match=r"parts|validation error"):
        read_parts(artifact)


def test_a_composite_is_trained_if_any_part_is():
    plain = Artifact(format="onnx", digest="sha256:1", metadata={"threads": 2, "graph": "g"}, **IO)
    notes = {"compress.prune-channels": {"epochs": 3}}
    trained = Artifact(format="onnx", digest="sha256:2", metadata={"threads": 2, "trained": notes}, **IO)
    assert inherit([plain, trained]) == {"threads": 2, "trained": notes}
    assert inherit([plain, plain]) == {"threads": 2}
