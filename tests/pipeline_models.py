"""ONNX models as scikit-learn's converter writes them: a pipeline over a column of text and a column of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

COLORS = ["blue", "green", "red", "violet"]
CLASSES = ["cat", "cow", "dog"]


def make_pipeline(*, width: int = 8, zipmap: bool = False) -> Any:
    """Return a one-hot encoding of ``color``, joined to ``size``, through a wide layer into a linear classifier.

    Args:
        width: Of the layer in between.
        zipmap: Whether the probabilities leave as a sequence of maps, as they do when nobody says otherwise.

    Returns:
        The model, with the outputs ``label`` (text) and ``probabilities``.
    """
    from onnx import TensorProto, helper, numpy_helper

    ml: dict[str, Any] = {"domain": "ai.onnx.ml"}
    draw = np.random.default_rng(3)
    first = draw.normal(size=(len(COLORS) + 1, width)).astype(np.float32)
    second = (draw.normal(size=(width, width)) / np.sqrt(width)).astype(np.float32)
    last = draw.normal(size=(len(CLASSES), width)).astype(np.float32)
    nodes = [
        helper.make_node("OneHotEncoder", ["color"], ["cube"], cats_strings=COLORS, zeros=1, **ml),
        helper.make_node("Reshape", ["cube", "flat"], ["hot"]),
        helper.make_node("Concat", ["hot", "size"], ["features"], axis=1),
        helper.make_node("MatMul", ["features", "first"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "second"], ["wide"]),
        helper.make_node(
            "LinearClassifier",
            ["wide"],
            ["label", "probabilities"],
            coefficients=last.ravel().tolist(),
            intercepts=[0.0] * len(CLASSES),
            classlabels_strings=CLASSES,
            post_transform="SOFTMAX",
            **ml,
        ),
    ]
    outputs = [helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"])]
    if zipmap:
        nodes.append(
            helper.make_node("ZipMap", ["probabilities"], ["maps"], classlabels_strings=CLASSES, **ml),
        )
        numbers = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, numbers))
        outputs.append(helper.make_value_info("maps", maps))
    else:
        outputs.append(
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(CLASSES)]),
        )
    graph = helper.make_graph(
        nodes,
        "pipeline",
        [
            helper.make_tensor_value_info("color", TensorProto.STRING, ["batch", 1]),
            helper.make_tensor_value_info("size", TensorProto.FLOAT, ["batch", 1]),
        ],
        outputs,
        [
            numpy_helper.from_array(np.array([-1, len(COLORS)], np.int64), "flat"),
            numpy_helper.from_array(first, "first"),
            numpy_helper.from_array(second, "second"),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def make_encoder() -> Any:
    """Return a model of the operators of ``ai.onnx.ml`` alone, as an ordinal encoder and trees are."""
    from onnx import TensorProto, helper

    node = helper.make_node(
        "LabelEncoder",
        ["color"],
        ["code"],
        domain="ai.onnx.ml",
        keys_strings=COLORS,
        values_floats=[float(index) for index in range(len(COLORS))],
        default_float=-1.0,
    )
    graph = helper.make_graph(
        [node],
        "encoder",
        [helper.make_tensor_value_info("color", TensorProto.STRING, ["batch", 1])],
        [helper.make_tensor_value_info("code", TensorProto.FLOAT, ["batch", 1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8)


def write_model(folder: Path, model: Any) -> None:
    """Write ``model.onnx`` into a new folder."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def draw_columns(rows: int, *, seed: int) -> dict[str, np.ndarray]:
    """Return a column of text and one of numbers, no two rows equal."""
    draw = np.random.default_rng(seed)
    colors = draw.choice([*COLORS, "ultramarine"], rows)
    return {"color": colors, "size": draw.normal(size=rows).astype(np.float32)}
