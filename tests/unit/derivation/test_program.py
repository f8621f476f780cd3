"""The program that is derived from a model and the columns of its data."""

from __future__ import annotations

from typing import Any

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.derivation.columns import ColumnFacts
from kedro_hone.derivation.program import choose_program
from kedro_hone.derivation.request import Request


def make_source(inputs, outputs, *, dtype="float32", **metadata: Any) -> Artifact:
    sides = (
        tuple(TensorSpec(name=name, dtype=kind, shape=("batch", *shape)) for name, shape in side.items())
        for side, kind in ((inputs, "float32"), (outputs, dtype))
    )
    given, made = sides
    return Artifact(format="onnx", digest="sha256:0", inputs=given, outputs=made, metadata=metadata)


def make_column(name: str, *values: Any, shape: tuple[int, ...] = ()) -> ColumnFacts:
    if shape:
        return ColumnFacts(name=name, kind="number", shape=shape)
    kind = "text" if isinstance(values[0], str) else "number"
    return ColumnFacts(
        name=name, kind=kind, values=values, whole=all(value == int(value) for value in values if kind != "text")
    )


def choose(source, *columns, **asked):
    return choose_program(Request(source="m", **asked), source, columns)


NET = make_source({"x": (4,)}, {"logits": (3,)})
PICTURES = make_source({"image": (3, 8, 8)}, {"logits": (3,)})
X = make_column("x", shape=(4,))
LABEL = make_column("label", 0, 1, 2)


def test_classes_by_the_outputs_and_the_labels():
    chosen = choose(NET, X, LABEL)
    assert (chosen.name, chosen.target, chosen.content) == ("tabular-classification", "label", ("x",))
    assert chosen.options == {"arrays": {"target": "label"}}


def test_pictures_are_classified_as_pictures():
    pictures = make_column("image", shape=(3, 8, 8))
    assert choose(PICTURES, pictures, LABEL).name == "image-classification"


@pytest.mark.parametrize(
    ("shape", "model", "channels"), [((8, 8, 3), (3, 8, 8), "last"), ((3, 8, 8), (8, 8, 3), "first")]
)
def test_channels_are_moved_where_only_that_fits(shape, model, channels):
    source = make_source({"image": model}, {"logits": (3,)})
    chosen = choose(source, make_column("image", shape=shape), LABEL)
    assert chosen.options["channels"] == channels


def test_numbers_for_each_row_are_a_regression():
    source = make_source({"x": (4,)}, {"y": (1,)})
    assert choose(source, X, make_column("target", 0.5, 1.5, 2.25)).name == "tabular-regression"


def test_0_and_1_with_one_number_for_each_row_may_be_two_tasks():
    source = make_source({"x": (4,)}, {"y": (1,)})
    with pytest.raises(HoneError, match="cannot be derived") as raised:
        choose(source, X, make_column("target", 0, 1))
    assert raised.value.slug == "task-unclear"
    assert "--task tabular-regression" in raised.value.hint
    assert choose(source, X, make_column("target", 0, 1), task="tabular-regression").name == "tabular-regression"


def test_without_labels_outputs_are_compared():
    chosen = choose(NET, X)
    assert (chosen.name, chosen.target) == ("fidelity", None)


def test_the_kind_of_an_estimator_decides():
    source = make_source({"age": (1,)}, {"label": ()}, dtype="str", sklearn={"kind": "classifier"})
    chosen = choose(source, make_column("age", 1.5), make_column("churned", "no", "yes"), target="churned")
    assert (chosen.name, chosen.options) == ("tabular-classification", {"arrays": {"target": "churned"}})


def test_an_input_of_the_model_is_no_target():
    source = make_source({"label": (4,)}, {"logits": (3,)})
    assert choose(source, make_column("label", shape=(4,))).name == "fidelity"


def test_the_only_array_that_fits_is_the_input():
    chosen = choose(NET, make_column("rows", shape=(4,)), LABEL)
    assert chosen.options == {"arrays": {"target": "label", "x": "rows"}}


def test_two_arrays_that_fit_are_not_guessed():
    columns = [make_column(name, shape=(4,)) for name in ("left", "right")]
    with pytest.raises(HoneError, match="nothing for the model's input 'x'") as raised:
        choose(NET, *columns, LABEL)
    assert "--input x=left" in raised.value.hint
    assert choose(NET, *columns, LABEL, inputs={"x": "right"}).options["arrays"] == {"target": "label", "x": "right"}


def test_a_target_that_is_not_there_is_named_with_its_neighbour():
    with pytest.raises(HoneError, match="no column 'labels'") as raised:
        choose(NET, X, LABEL, target="labels")
    assert "'label'" in raised.value.hint


def test_text_labels_of_a_network_need_the_order_of_the_classes():
    labels = make_column("label", "cat", "dog", "owl")
    with pytest.raises(HoneError, match="only numbers of classes") as raised:
        choose(NET, X, labels)
    assert raised.value.slug == "labels-mismatch"
    chosen = choose(NET, X, labels, classes=("owl", "cat", "dog"))
    assert chosen.options["classes"] == ["owl", "cat", "dog"]


BERT = make_source({"input_ids": ("length",)}, {"logits": (2,)}, transformers={"task": "text-classification"})


def test_a_text_classifier_by_its_config():
    review, stars = make_column("review", "good", "bad"), make_column("stars", 0, 1)
    chosen = choose(BERT, review, stars, target="stars")
    assert (chosen.name, chosen.content) == ("text-classification", ("review",))
    assert chosen.options["arrays"] == {"target": "stars", "text": "review"}


def test_a_text_classifier_needs_labels():
    with pytest.raises(HoneError, match="The data have no labels") as raised:
        choose(BERT, make_column("text", "good", "bad"), make_column("stars", 0, 1))
    assert "--target stars" in raised.value.hint


def test_a_task_without_a_program_is_compared():
    source = make_source({"x": (4,)}, {"y": (4,)}, transformers={"task": "depth-estimation"})
    assert choose(source, X).name == "fidelity"


def test_an_option_for_arrays_leaves_the_target_named():
    chosen = choose(NET, X, LABEL, target="label", options={"arrays": {"x": "rows"}})
    assert chosen.options["arrays"] == {"target": "label", "x": "rows"}


def test_without_data_outputs_are_compared():
    assert choose(NET).name == "fidelity"
