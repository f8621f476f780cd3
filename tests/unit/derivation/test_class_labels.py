"""Labels that are none of an estimator's classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.derivation.class_labels import check_classes, list_classes
from kedro_hone.derivation.columns import ColumnFacts
from kedro_hone.derivation.program import ChosenProgram
from kedro_hone.derivation.request import Request

ASKED = Request(source="m")
CHOSEN = ChosenProgram(name="tabular-classification", why="as the test needs it", target="churned")


def make_source(*classes) -> Artifact:
    sides = {"inputs": (TensorSpec(name="X", dtype="float64", shape=("batch", 3)),)}
    return Artifact(
        format="sklearn", digest="sha256:0", outputs=(), metadata={"sklearn": {"classes": classes}}, **sides
    )


def make_target(*values) -> ColumnFacts:
    return ColumnFacts(name="churned", kind="text" if isinstance(values[0], str) else "number", values=values)


@pytest.mark.parametrize(
    ("classes", "values", "why", "hint"),
    [
        ((0, 1), (1.0, 2.0), "'2' is none of the 2 classes: '0', '1'.", "Subtract 1 from each label"),
        ((0, 1), (0.0, 7.0), "'7' is none", "name another column: --target NAME"),
        (("no", "yes"), ("No", "yes"), "'No' is none of the 2 classes: 'no', 'yes'.", "--target NAME"),
        (tuple("abcdefg"), ("z",), "'z' is none of the 7 classes: 'a', 'b', 'c', 'd', 'e', ….", "--target"),
    ],
)
def test_a_label_that_is_no_class_is_named_with_the_classes(classes, values, why, hint):
    with pytest.raises(HoneError) as raised:
        check_classes([make_target(*values)], make_source(*classes), ASKED, CHOSEN)
    assert raised.value.slug == "labels-mismatch"
    assert why in raised.value.why
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("classes", "values", "asked"),
    [
        ((0, 1), (0.0, 1.0), {}),
        ((0.0, 1.0), (1,), {}),
        ((1, 2), (1.0, 2.0), {}),
        ((), (5.0,), {}),
        (("no", "yes"), (0.0, 1.0), {}),  # another type, which the program refuses
        ((3, 4), (0.0, 1.0), {"options": {"output": "probabilities"}}),
        (("no", "yes"), ("nein", "ja"), {"classes": ("nein", "ja")}),
    ],
)
def test_labels_that_are_classes_or_numbers_of_classes(classes, values, asked):
    check_classes([make_target(*values)], make_source(*classes), Request(source="m", **asked), CHOSEN)


def test_another_task_has_no_classes():
    chosen = replace(CHOSEN, name="tabular-regression")
    check_classes([make_target(5.0)], make_source(0, 1), ASKED, chosen)
    check_classes([make_target(5.0)], make_source(0, 1), ASKED, replace(CHOSEN, target=None))


def test_few_classes_are_all_listed():
    assert list_classes([1.0, 2, "x"]) == "'1', '2', 'x'"
