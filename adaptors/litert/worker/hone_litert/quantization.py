"""Quantize the files of a model to int8 with AI Edge Quantizer, all with the same ranges."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe

from hone_runtime.sessions import compiled

from . import session

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

_RECIPES = {
    "litert.int8-dynamic": recipe.dynamic_wi8_afp32,
    "litert.int8-weights": recipe.weight_only_wi8_afp32,
    "litert.int8-static": recipe.static_wi8_ai8,
}
_FLOAT_ENDS = [
    {
        "regex": ".*",
        "operation": operation,
        "algorithm_key": "no_quantize",
        "op_config": {"compute_precision": "FLOAT"},
    }
    for operation in ("INPUT", "OUTPUT")
]
"""Without these settings the model's inputs and outputs would be int8."""


def quantize(job: Json, output: Path) -> Json:
    """Write the job's model with int8 weights, and int8 activations if its adaptor requires it.

    Files of the same graph get the same ranges, so that a row has the same result at every shape, except for the order
    of sums. A transformer's graph for one row differs from the one for many, since broadcasts are left out.
    """
    folder, adaptor = Path(job["input"]["path"]), job["adaptor"]
    rules, static = _RECIPES[adaptor](), adaptor == "litert.int8-static"
    if static:
        rules = rules + _FLOAT_ENDS
    index = session.read_index(str(folder))
    rows = _read_rows(job, index["inputs"]) if static else {}
    changed = False
    for shapes in _group_files(folder, job["input"]["static_shapes"]):
        ranges = None
        if static:
            shape = _choose_shape(shapes, len(next(iter(rows.values()))), index["inputs"])
            if shape is None:
                return {"refused": "there are too few rows of calibration data for one call of a shape"}
            tool = _open(compiled.find_file(folder, shape, session.ENDING), rules)
            ranges = tool.calibrate({session.SIGNATURE: _make_batches(rows, index["inputs"], shape["sizes"])})
        for path in (compiled.find_file(folder, shape, session.ENDING) for shape in shapes):
            _open(path, rules).quantize(ranges).export_model(str(output / path.name))
            changed |= (output / path.name).stat().st_size < path.stat().st_size
    if not changed:
        for path in output.iterdir():
            path.unlink()
        return {"nothing_to_do": "the quantizer found no weights that it could quantize"}
    compiled.write_index(output, index)
    return {"metadata": {"quantization": adaptor}}


def _group_files(folder: Path, shapes: list[Json]) -> list[list[Json]]:
    """Group the shapes by the graphs of their files: equal graphs have the same tensor names in the same order."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for shape in shapes:
        details = Interpreter(str(compiled.find_file(folder, shape, session.ENDING))).get_tensor_details()
        groups.setdefault(tuple(str(tensor["name"]) for tensor in details), []).append(shape)
    return [*groups.values()]


def _open(path: Path, rules: list[Json]) -> quantizer.Quantizer:
    tool = quantizer.Quantizer(str(path))
    tool.load_quantization_recipe(rules)
    return tool


def _read_rows(job: Json, inputs: list[Json]) -> Arrays:
    """Return calibration rows by input name, in the types of the files."""
    most = job["options"]["samples"]
    with np.load(job["calibration"]) as rows:
        found = {spec["name"]: rows[spec["name"]][:most].astype(spec["dtype"]) for spec in inputs}
    wide = [spec["name"] for spec in inputs if spec["dtype"] == "int64"]
    return {**found, **{name: session.narrow(name, found[name]) for name in wide}}


def _choose_shape(described: list[Json], count: int, inputs: list[Json]) -> Json | None:
    """Return the largest of the shapes for which there are enough rows; None if absent."""
    fitting = [(key, shape) for shape in described if (key := compiled.find_key(inputs, shape["sizes"]))[0][0] <= count]
    return max(fitting, key=lambda pair: sum(map(math.prod, pair[0])))[1] if fitting else None


def _make_batches(rows: Arrays, inputs: list[Json], sizes: Json) -> list[Arrays]:
    """Return rows in whole batches of a shape, by the file's keys; text lengths are cut, or filled with zeros."""
    wanted = dict(zip((spec["name"] for spec in inputs), compiled.find_key(inputs, sizes), strict=True))
    size, count = next(iter(wanted.values()))[0], len(next(iter(rows.values())))
    fitted = {name: _fit(array, wanted[name][1:]) for name, array in rows.items()}
    return [
        {spec["key"]: fitted[spec["name"]][start : start + size] for spec in inputs}
        for start in range(0, count - size + 1, size)
    ]


def _fit(array: Array, wanted: tuple[int, ...]) -> Array:
    """Return rows cut or padded to the wanted sizes."""
    cut = array[(slice(None), *(slice(size) for size in wanted))]
    missing = [(0, size - have) for size, have in zip(wanted, cut.shape[1:], strict=True)]
    return np.pad(cut, [(0, 0), *missing])
