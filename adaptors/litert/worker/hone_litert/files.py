"""An author's own LiteRT file: described, and run at the sizes of its inputs, if the file allows them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from hone_runtime.sessions import compiled
from hone_runtime.worker.imports import require_cpu
from hone_runtime.worker.refusal import UnsuitedError

from . import session

Json = dict[str, Any]
Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]

FORMAT = "tflite-file"
MOST_OPEN = 4
"""The largest number of interpreters in a session; each has the model and the tensors of one shape in memory."""
_DEFAULT = session.SIGNATURE
_READ = frozenset(
    {"DEQUANTIZE", "DENSIFY", "CAST", "BITCAST", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "SHAPE", "RANK"}
    | {"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "PACK", "UNPACK"}
    | {"CONCATENATION", "PAD", "PADV2", "MIRROR_PAD", "TILE", "BROADCAST_TO", "FILL", "REVERSE_V2", "REVERSE_SEQUENCE"}
    | {"SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "SELECT", "SELECT_V2", "WHERE"}
    | {"SCATTER_ND", "DYNAMIC_UPDATE_SLICE", "MATRIX_DIAG", "MATRIX_SET_DIAG", "ASSIGN_VARIABLE", "READ_VARIABLE"}
    | {"STABLEHLO_RESHAPE", "STABLEHLO_TRANSPOSE", "STABLEHLO_SLICE", "STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_GATHER"}
    | {"RESIZE_NEAREST_NEIGHBOR", "SPARSE_TO_DENSE", "STABLEHLO_SELECT"}
    | {"STABLEHLO_CONCATENATE", "STABLEHLO_PAD", "STABLEHLO_BROADCAST_IN_DIM", "STABLEHLO_DYNAMIC_UPDATE_SLICE"}
)
"""Operators that read, select or move integers, without computing with them."""


def open_file(folder: str, threads: int) -> Interpreter:
    """Return an interpreter of a file.

    Raises:
        UnsuitedError: LiteRT cannot run it.
    """
    try:
        interpreter = Interpreter(str(Path(folder, "model.tflite")), num_threads=threads)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise UnsuitedError(f"LiteRT cannot run it: {' '.join(str(error).split())[:300]}") from error
    return interpreter


def list_tensors(interpreter: Interpreter) -> dict[str, dict[str, Json]]:
    """Return LiteRT's details of the inputs and outputs, by the names of the signature, else of the tensors."""
    signatures = interpreter.get_signature_list()
    if len(signatures) > 1 and _DEFAULT not in signatures:
        raise UnsuitedError(f"it has several signatures: {', '.join(sorted(signatures))}")
    if signatures:
        runner = interpreter.get_signature_runner(_DEFAULT if _DEFAULT in signatures else next(iter(signatures)))
        return {"inputs": runner.get_input_details(), "outputs": runner.get_output_details()}
    sides = {"inputs": interpreter.get_input_details(), "outputs": interpreter.get_output_details()}
    return {side: dict(zip(_name(details), details, strict=True)) for side, details in sides.items()}


def describe(folder: str) -> Json:
    """Return the specs of a file, or why it is refused."""
    try:
        interpreter = open_file(folder, 1)
        found = list_tensors(interpreter)
        specs = {side: [_specify(name, one) for name, one in details.items()] for side, details in found.items()}
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited)}
    return {**specs, "operators": list_operators(interpreter)}


def list_operators(interpreter: Interpreter) -> list[str]:
    """Return the operators of a file; those that compute with quantized integers are called "of int8".

    An operator with float inputs and integer weights quantizes its input at run time.
    """
    tensors = {int(one["index"]): one for one in interpreter.get_tensor_details()}
    names = set[str]()
    for one in interpreter._get_ops_details():  # noqa: SLF001 - there is no other way to read them
        name, inputs = str(one["op_name"]), [tensors[number] for number in map(int, one["inputs"]) if number in tensors]
        if name == "DELEGATE":  # it replaces some of the others
            continue
        integers = name not in _READ and any(map(_is_quantized, inputs))
        names.add(f"{name} of int8" if integers else name)
    return sorted(names)


def _is_quantized(tensor: Json) -> bool:
    return np.dtype(tensor["dtype"]).kind in "iu" and len(tensor["quantization_parameters"]["scales"]) > 0


def write_shapes(job: Json, output: Path) -> Json:
    """Write a copy for each of the recipe's shapes, with the index, for LiteRT's quantizer and its runtime."""
    artifact, shapes = job["input"], job["shapes"]
    interpreter = open_file(artifact["path"], 1)
    if _DEFAULT not in interpreter.get_signature_list():
        return {"refused": f"it has no signature {_DEFAULT}, by which the quantizer finds its tensors"}
    details = list_tensors(interpreter)["inputs"]
    if wide := [name for name, one in details.items() if np.dtype(one["dtype"]) == np.int64]:
        return {"refused": f"{wide[0]} is of 64 bits"}
    own = tuple(tuple(int(size) for size in details[spec["name"]]["shape"]) for spec in artifact["inputs"])
    for shape in shapes:
        wanted = compiled.find_key(artifact["inputs"], shape["sizes"])
        if wanted != own:
            return {"refused": f"the file is made for the sizes {own}, and the shape {shape['name']} has {wanted}"}
        shutil.copyfile(Path(artifact["path"], "model.tflite"), compiled.find_file(output, shape, session.ENDING))
    specs = {side: [{**spec, "key": spec["name"]} for spec in artifact[side]] for side in compiled.SIDES}
    compiled.write_index(output, specs)
    return {"outputs": artifact["outputs"], "static_shapes": [shape["name"] for shape in shapes]}


def _name(details: Iterable[Json]) -> list[str]:
    names = [str(one["name"]).partition(":")[0].removeprefix(f"{_DEFAULT}_") for one in details]
    return [name if names.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(names)]


def _specify(name: str, details: Json) -> Json:
    dtype = np.dtype(details["dtype"])
    if dtype.kind not in "biuf":
        what = "text" if dtype.kind in "OSU" else f"of the type {dtype.name}"
        raise UnsuitedError(f"{name} is {what}, which no conversion takes")
    found = details["shape_signature"] if "shape_signature" in details else details["shape"]
    sizes = [int(size) for size in found]
    names = ["batch", *(f"{name}_{axis}" for axis in range(1, len(sizes)))]
    shape = [size if size >= 0 else dim for size, dim in zip(sizes, names, strict=True)]
    return {"name": name, "dtype": dtype.name, "shape": shape}


class Session:
    """A file with interpreters for its most recent shapes; calls from several threads are serialized."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open a file.

        Raises:
            ValueError: It is refused, or is for another device.
        """
        require_cpu(job)
        self._folder, self._threads = str(job["input"]["path"]), int(job["threads"])
        try:
            first = open_file(self._folder, self._threads)
            self._tensors = list_tensors(first)
        except UnsuitedError as unsuited:
            raise ValueError(str(unsuited)) from unsuited
        own = tuple(tuple(int(size) for size in one["shape"]) for one in self._tensors["inputs"].values())
        self._opened = {own: first}
        self._turn = threading.Lock()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        inputs, outputs = self._tensors["inputs"], self._tensors["outputs"]
        with self._turn:  # an interpreter has only one set of tensors
            interpreter = self._find(tuple(feeds[name].shape for name in inputs))
            for name, one in inputs.items():
                interpreter.set_tensor(one["index"], feeds[name])
            interpreter.invoke()
            return {name: interpreter.get_tensor(one["index"]) for name, one in outputs.items()}

    def _find(self, shapes: Shapes) -> Interpreter:
        """Return the interpreter for some shapes; beyond the limit, the least recently used one is closed."""
        interpreter = self._opened.pop(shapes, None)
        if interpreter is None and len(self._opened) == MOST_OPEN:
            del self._opened[next(iter(self._opened))]
        self._opened[shapes] = found = interpreter or self._open(shapes)
        return found

    def _open(self, shapes: Shapes) -> Interpreter:
        """Return a new interpreter: one that has already run may compute something else after resizing."""
        interpreter = Interpreter(str(Path(self._folder, "model.tflite")), num_threads=self._threads)
        for one, shape in zip(self._tensors["inputs"].values(), shapes, strict=True):
            if tuple(one["shape"]) != shape:
                interpreter.resize_tensor_input(one["index"], shape, strict=True)
        interpreter.allocate_tensors()
        return interpreter
