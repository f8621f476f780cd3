"""A target that the model gets as an input proves nothing."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.derivation.columns import ColumnFacts
from kedro_hone.derivation.leaks import check_leak, describe_unused, list_inputs

AGE, CHURNED = (ColumnFacts(name=name, kind="number") for name in ("age", "churned"))


def make_source(*names, **metadata):
    specs = {
        side: tuple(TensorSpec(name=name, dtype="float32", shape=("batch", 1)) for name in side_names)
        for side, side_names in (("inputs", names), ("outputs", ["label"]))
    }
    return Artifact(format="sklearn", digest="sha256:0", metadata=metadata, **specs)


FITTED = make_source("X", sklearn={"kind": "classifier", "feature_names_in": ["age", "churned"]})


@pytest.mark.parametrize("source", [make_source("age", "churned"), FITTED])
def test_an_input_is_no_target(source):
    with pytest.raises(HoneError) as caught:
        check_leak(CHURNED, source, {}, [AGE, CHURNED, ColumnFacts(name="left", kind="truth")])
    assert caught.value.slug == "target-unusable"
    assert "--target left" in caught.value.hint


def test_a_column_of_its_own_is_one():
    check_leak(CHURNED, make_source("age"), {}, [AGE, CHURNED])
    check_leak(CHURNED, make_source("age", "churned"), {"churned": "last_year"}, [AGE, CHURNED])


def test_an_input_under_another_name_is_no_target():
    with pytest.raises(HoneError, match="cannot be the target"):
        check_leak(CHURNED, make_source("age", "score"), {"score": "churned"}, [AGE, CHURNED])


def test_inputs_are_those_of_the_signature_and_of_the_fit():
    assert list_inputs(FITTED) == {"X", "age", "churned"}


def test_a_column_that_no_input_uses_may_be_the_label():
    columns = [AGE, CHURNED, ColumnFacts(name="next", kind="number"), ColumnFacts(name="image", kind="other")]
    assert describe_unused(FITTED, {}, columns) == (
        "data      'next' is not used by the model; if it is the label: --target next",
    )
    assert describe_unused(FITTED, {"X": "next"}, columns) == ()
    pictures = [ColumnFacts(name="more", kind="number", shape=(3,)), ColumnFacts(name="input_0", kind="number")]
    assert describe_unused(FITTED, {}, pictures) == ()
