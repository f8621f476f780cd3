from __future__ import annotations

import pytest

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from kedro_hone.search.steps.lines import WIDTH, format_step, shorten_route

BUILT = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())


def test_steps_of_one_adaptor_are_told_apart_by_their_route():
    routes = (("onnx",), ("onnx", "openvino.ir"), ("onnx", "onnxruntime.int8-static", "openvino.ir"))
    assert [format_step("built", "openvino.f32", route, BUILT, seconds=12.34) for route in routes] == [
        "built     openvino.f32 in 12.3 s (onnx)",
        "built     openvino.f32 in 12.3 s (onnx → openvino.ir)",
        "built     openvino.f32 in 12.3 s (onnx → int8-static → ir)",
    ]


@pytest.mark.parametrize("adaptor", ["openvino.ir", "openvino.int8-accuracy-control"])
@pytest.mark.parametrize("length", range(1, 8))
def test_a_line_fits_the_terminal(adaptor, length):
    route = ("pytorch", *("pytorch.export", "pytorch.onnx", "onnxruntime.int8-static-per-channel") * 2)[:length]
    line = format_step("built", adaptor, route, BUILT, seconds=123.4)
    assert len(line) <= WIDTH == 80 - len("00:00:00 ")
    assert adaptor in line


def test_what_does_not_fit_is_left_out_of_the_middle():
    route = ("onnx", "a.one-long-name", "b.another-long-name", "c.last")
    assert shorten_route(route, room=200) == "(onnx → a.one-long-name → b.another-long-name → c.last)"
    assert shorten_route(route, room=52) == "(onnx → one-long-name → another-long-name → last)"
    assert shorten_route(route, room=30) == "(onnx → … → last)"
    assert shorten_route(route, room=5) == ""


def test_a_refusal_and_a_failure_say_why():
    refused = Refused(by="x.int4", reason="the model has no\nMatMul of constant weights")
    line = format_step("refused", "x.int4", ("onnx",), refused, seconds=4.2)
    assert line == "refused   x.int4 in 4.2 s (onnx): the model has no MatMul of constant weights"
    failed = Failed(by="x.int4", failure=FailureClass.TIME_OUT, reason="it took more than 900 s")
    assert format_step("failed", "x.int4", ("onnx",), failed).endswith("(onnx): time-out: it took more than 900 s")
    assert len(format_step("refused", "x", ("onnx",), Refused(by="x", reason="word " * 500))) < 400


def test_a_step_on_the_source_itself_names_its_format():
    assert format_step("reused", "pytorch.export", ("pytorch",), BUILT) == "reused    pytorch.export (pytorch)"
