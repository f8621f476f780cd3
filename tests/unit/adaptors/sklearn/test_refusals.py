"""What is refused of a conversion that raised, and what is a failure: of our code, or of the converters'."""

from __future__ import annotations

import builtins
from types import FunctionType

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN

refusals = load_file("hone_refusals_of_estimators", str(TOOLCHAIN.worker.with_name("refusals.py")))
PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())
SCALER = "the step 'standardscaler', sklearn.preprocessing._data.StandardScaler"


class Operator:
    """Has the estimator of a step, as an operator of skl2onnx."""

    def __init__(self, step, convert):
        self.raw_operator, self.convert = step, convert


def make_topology():
    """Return a new class with the two methods that skl2onnx calls for a step."""

    class Topology:
        def call_shape_calculator(self, operator):
            operator.convert()

        def call_converter(self, operator, container):
            operator.convert(*container)

    refusals.carry_steps(Topology)
    return Topology()


def explain(convert, step=PIPELINE[0]):
    with pytest.raises(refusals.StepError) as raised:
        make_topology().call_converter(Operator(step, convert), ())
    return refusals.explain(raised.value, PIPELINE)


def fail(error):
    def convert():
        raise error

    return convert


def test_an_error_of_our_code_is_a_failure_with_the_step():
    told = explain(lambda: {}["absent"])
    assert told == {"failed": {"class": "convert", "reason": f"{SCALER}: KeyError: 'absent'"}}
    for error in (RuntimeError("ours"), TypeError("ours"), RecursionError("ours")):
        assert "ours" in explain(fail(error))["failed"]["reason"]


def test_what_has_no_converter_is_a_refusal_by_the_step():
    told = explain(fail(NotImplementedError("its booster has no converter")))
    assert told == {"refused": f"{SCALER}, cannot be converted to ONNX: its booster has no converter"}


def move(function, package):
    """Return a function as one of a package's module."""
    return FunctionType(function.__code__, {"__name__": package, "__builtins__": builtins})


@pytest.mark.parametrize("package", ["skl2onnx.operator_converters.scaler", "onnxmltools.convert"])
def test_an_error_that_a_converter_raises_on_purpose_is_a_refusal(package):
    def refuse():
        raise RuntimeError("no such norm")

    assert "no such norm" in explain(move(refuse, package))["refused"]
    assert "KeyError: 'absent'" in explain(move(lambda: {}["absent"], package))["failed"]["reason"]


def test_the_innermost_step_is_named():
    topology = make_topology()
    inner = Operator(PIPELINE[0], fail(NotImplementedError("no")))
    outer = Operator(PIPELINE, lambda: topology.call_shape_calculator(inner))
    assert SCALER in explain(outer.convert, PIPELINE)["refused"]


def test_what_no_step_raised_is_a_failure_of_the_whole():
    told = refusals.explain(ValueError("two inputs have one name"), PIPELINE)
    assert told["failed"]["reason"] == "sklearn.pipeline.Pipeline: ValueError: two inputs have one name"
