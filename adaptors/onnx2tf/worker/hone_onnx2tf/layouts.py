"""Convert by onnx2tf, and take of the layouts the one that computes what the model does.

TensorFlow has channels last. onnx2tf moves axes, and finds out by values which ones it must move; where it guesses
wrong its model runs, and is wrong. So what it makes is compared with ONNX Runtime, and outputs get the model's own
layout back.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx2tf
import tensorflow as tf

from . import graphs
from .orders import find_order

Call = Callable[[list[Any]], list[Any]]

_SAMPLES = "calibration_image_sample_data_20x128x128x3_float32.npy"
"""What onnx2tf downloads where an input may be an image, and does not use where it is given rows."""


def convert(graph: onnx.ModelProto, rows: list[graphs.Rows], *, folder: Path) -> Call:
    """Return a function from tensors to tensors, in the model's own order and layout.

    Args:
        graph: A model of fixed sizes, from ``graphs.fix``.
        rows: What it computes.
        folder: For files; it is made.

    Raises:
        Exception: onnx2tf fails, whichever layout its inputs have.
        ValueError: What it makes computes something else.
    """
    folder.mkdir()
    if not Path(_SAMPLES).exists():
        np.save(_SAMPLES, np.zeros((20, 128, 128, 3), np.float32))
    problem: BaseException = ValueError("it has no inputs")
    for number, options in enumerate(_list_options(graph)):
        try:
            model = _call_onnx2tf(graph, rows[0], options, folder / str(number))
            return _arrange(model, rows)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - dozens of classes, and it exits
            traceback.print_exc()  # for the log; a second layout may do
            problem = error
    raise problem


def _list_options(graph: onnx.ModelProto) -> list[dict[str, list[str]]]:
    """Return how inputs may be taken: as images, whose channels are moved to the end; or with their axes as they are.

    Both keep what is fed as it is in the model. The likelier is the first.
    """
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.graph.input}
    images = [name for name, rank in ranks.items() if rank in {3, 4, 5}]
    kept = {"keep_shape_absolutely_input_names": [*ranks]}
    if not images:
        return [kept]
    moved = {"keep_ncw_or_nchw_or_ncdhw_input_names": images}
    return [moved, kept] if graphs.has_images(graph) else [kept, moved]


def _call_onnx2tf(graph: onnx.ModelProto, rows: graphs.Rows, options: dict[str, list[str]], folder: Path) -> Any:
    """Return a model of Keras. What onnx2tf compares in between is computed of our rows: ones look the same moved."""
    folder.mkdir()
    given = []
    for number, array in enumerate(rows.inputs):
        np.save(folder / f"in_{number}.npy", array)
        given.append([f"in_{number}", str(folder / f"in_{number}.npy")])
    onnx.save(graph, folder / "model.onnx")  # it writes into it
    return onnx2tf.convert(
        input_onnx_file_path=str(folder / "model.onnx"),
        output_folder_path=str(folder / "made"),
        custom_input_op_name_np_data_path=given,
        not_use_onnxsim=True,  # it was called before, and here it would be a program on the path
        disable_model_save=True,
        non_verbose=True,
        **options,
    )


def _arrange(model: Any, rows: list[graphs.Rows]) -> Call:
    """Return a model of Keras with its outputs in the layout that is due.

    Raises:
        ValueError: In none of them it computes what is due.
    """

    def call(tensors: list[Any]) -> list[Any]:
        found = model(tensors, training=False)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    computed = [[np.asarray(array) for array in call([*map(tf.constant, one.inputs)])] for one in rows]
    due = [one.outputs for one in rows]
    if len(computed[0]) != len(due[0]):
        raise ValueError(f"it returns {len(computed[0])} tensors and not {len(due[0])}")
    orders = [
        find_order([array[number] for array in computed], [array[number] for array in due])
        for number in range(len(due[0]))
    ]
    return lambda tensors: [tf.transpose(found, order) for found, order in zip(call(tensors), orders, strict=True)]
