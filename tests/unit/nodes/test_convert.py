from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, FailureClass, Refused, StepFacts
from kedro_hone.nodes.convert import convert_to_backend


@pytest.fixture
def convert():
    def convert_(form, backend, *names, **others):
        source = Artifact(format=form, digest="sha256:0", inputs=(), outputs=())
        converters = dict.fromkeys(names)
        context = SimpleNamespace(source=source)
        return convert_to_backend(context=context, reference=None, backend=backend, converters=converters, **others)

    return convert_


def test_a_source_of_the_backend_is_taken_as_it_is(convert):
    assert convert("onnx", "onnx", "pytorch.onnx").format == "onnx"


def test_what_the_backend_is_converted_from_says_why_it_is_missing(convert):
    ended = Failed(by="pytorch.export", failure=FailureClass.TIME_OUT, reason="it was ended after 63 s")
    assert convert("transformers", "onnx", "pytorch.onnx", pytorch=ended).reason == "it was ended after 63 s"
    assert convert("transformers", "onnx", "sklearn.onnx", pytorch=ended).slug == "no-converter"


def test_a_conversion_that_succeeds_carries_no_steps_of_the_one_that_failed_before(convert, monkeypatch):
    def make_step(key):
        return StepFacts(key=key, adaptor="a", run="1", folder="", seconds=1.0, outcome="failed")

    ended = Failed(by="x", failure=FailureClass.CRASH, reason="it crashed", steps=(make_step("lost"),))
    outcomes = {
        "good": Artifact(format="onnx", digest="sha256:1", inputs=(), outputs=(), steps=(make_step("own"),)),
        "bad": Failed(by="y", failure=FailureClass.CRASH, reason="too", steps=(make_step("own"),)),
    }
    for name, steps in (("good", ["own"]), ("bad", ["lost", "own"])):
        monkeypatch.setattr("kedro_hone.nodes.convert.transform", lambda *_, outcome=outcomes[name], **__: outcome)
        found = convert("sklearn", "onnx", "sklearn.onnx", "pytorch.onnx", pytorch=ended)
        assert [step.key for step in found.steps] == steps


def test_who_converts_in_routes_of_its_own_is_named(convert):
    refused = convert("transformers", "onnx")
    assert isinstance(refused, Refused)
    assert "converts transformers to onnx, directly or through another backend; routes of" in refused.reason
    assert "pytorch.onnx-traced do so themselves, if the recipe has them" in refused.reason
    assert convert("keras", "pytorch").reason.endswith("through another backend")
