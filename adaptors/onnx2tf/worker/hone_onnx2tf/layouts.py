"""Convert with onnx2tf, and select the layout for which the result computes the same as the model.

TensorFlow has channels last. onnx2tf moves axes, and infers from values which ones it must move. If it infers wrongly,
its model runs but computes wrong results. So its result is compared with ONNX Runtime, and outputs are transposed back
to the model's own layout.
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
"""A file that onnx2tf downloads if an input may be an image, and does not use if rows are given."""


def convert(graph: onnx.ModelProto, rows: list[graphs.Rows], *, folder: Path) -> Call:
    """Return a function from tensors to tensors, in the model's own order and layout.

    Args:
        graph: A model of fixed sizes, from ``graphs.fix``.
        rows: Its inputs and outputs.
        folder: For files; it is created.

    Raises:
        Exception: onnx2tf fails for every layout of the inputs.
        ValueError: The converted model computes something else.
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
            traceback.print_exc()  # for the log; a second layout may work
            problem = error
    raise problem


def _list_options(graph: onnx.ModelProto) -> list[dict[str, list[str]]]:
    """Return the possible treatments of inputs: as images with channels moved to the end, or with axes unchanged.

    In both cases, the inputs of the converted model have their original layout. The more likely one is first.
    """
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.graph.input}
    images = [name for name, rank in ranks.items() if rank in {3, 4, 5}]
    kept = {"keep_shape_absolutely_input_names": [*ranks]}
    if not images:
        return [kept]
    moved = {"keep_ncw_or_nchw_or_ncdhw_input_names": images}
    return [moved, kept] if graphs.has_images(graph) else [kept, moved]


def _call_onnx2tf(graph: onnx.ModelProto, rows: graphs.Rows, options: dict[str, list[str]], folder: Path) -> Any:
    """Return a Keras model.

    onnx2tf compares intermediate results for the given rows: its default of ones looks the same with moved axes.
    """
    folder.mkdir()
    given = []
    for number, array in enumerate(rows.inputs):
        np.save(folder / f"in_{number}.npy", array)
        given.append([f"in_{number}", str(folder / f"in_{number}.npy")])
    onnx.save(graph, folder / "model.onnx")  # onnx2tf modifies this file
    return onnx2tf.convert(
        input_onnx_file_path=str(folder / "model.onnx"),
        output_folder_path=str(folder / "made"),
        custom_input_op_name_np_data_path=given,
        not_use_onnxsim=True,  # onnxsim was run before; here it would be run as a program on the path
        disable_model_save=True,
        non_verbose=True,
        **options,
    )


def _arrange(model: Any, rows: list[graphs.Rows]) -> Call:
    """Return a function of a Keras model with its outputs in the expected layout.

    Raises:
        ValueError: In no layout do the outputs match.
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
