"""Run models of LiteRT: one file for each shape, opened with XNNPACK and the recipe's threads.

A folder has ``index.json`` and, for each shape, ``model-<shape>.tflite``. The index has the specs of ``inputs`` and
``outputs`` as the model's source has them, each with the ``key`` of its tensor in the files' signature.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from hone_loading import load_part, require_cpu

shapes = load_part("shapes")

INDEX = "index.json"
SIGNATURE = "serving_default"

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

_NARROWED = {"int64": np.dtype(np.int32)}
"""Types that files hold as another one; every other type they hold as it is."""


def find_file(folder: str | Path, shape: Json) -> Path:
    """Return where the file of a shape is.

    Raises:
        ValueError: It would be in another folder.
    """
    name = str(shape["name"])
    if Path(name).name != name:
        raise ValueError(f"a shape's name is no file's name: {name[:80]!r}")
    return Path(folder, f"model-{name}.tflite")


def read_index(folder: str | Path) -> dict[str, list[Json]]:
    """Return the specs of a folder's model, with the keys of their tensors.

    Raises:
        ValueError: There is no index, or it does not say what it should.
    """
    try:
        index = json.loads(Path(folder, INDEX).read_text())
        return {
            side: [{name: spec[name] for name in ("name", "dtype", "shape", "key")} for spec in index[side]]
            for side in ("inputs", "outputs")
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{INDEX} cannot be read: {type(error).__name__}: {error}") from error


class Model:
    """One file, opened: arrays in the order of the index's inputs to arrays in the order of its outputs."""

    def __init__(self, path: Path, index: dict[str, list[Json]], sizes: Json, threads: int) -> None:
        """Open a file of one shape.

        Raises:
            ValueError: It cannot be read, or takes or returns something else than the index says.
        """
        if not path.is_file():
            raise ValueError(f"{path.name} is missing")
        try:
            self.interpreter = Interpreter(str(path), num_threads=threads)
            self.interpreter.allocate_tensors()
            signature = self.interpreter.get_signature_runner(SIGNATURE)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path.name} cannot be opened: {str(error).strip()[:300]}") from error
        self.name, self._turn = path.name, threading.Lock()
        details = {"inputs": signature.get_input_details(), "outputs": signature.get_output_details()}
        for side, specs in index.items():
            _require_tensors(path.name, specs, details[side], sizes)
        self._inputs = [
            (spec["name"], details["inputs"][spec["key"]]["index"], spec["dtype"] in _NARROWED)
            for spec in index["inputs"]
        ]
        self._outputs = [
            (spec["name"], details["outputs"][spec["key"]]["index"], np.dtype(spec["dtype"]))
            for spec in index["outputs"]
        ]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name.

        Raises:
            ValueError: A number of 64 bits does not fit the 32 bits that the file has for it.
        """
        with self._turn:  # an interpreter has one set of tensors
            for name, index, narrowed in self._inputs:
                self.interpreter.set_tensor(index, narrow(name, feeds[name]) if narrowed else feeds[name])
            self.interpreter.invoke()
            return {
                name: self.interpreter.get_tensor(index).astype(dtype, copy=False)
                for name, index, dtype in self._outputs
            }

    def count_parts(self) -> int:
        """Return of how many parts that XNNPACK computes the graph consists: one where it took all; 0 where nothing."""
        nodes = self.interpreter._get_ops_details()  # noqa: SLF001 - there is no public name
        return sum(node["op_name"] == "DELEGATE" for node in nodes)


def narrow(name: str, array: Array) -> Array:
    """Return whole numbers of 64 bits in 32 bits.

    Raises:
        ValueError: One does not fit.
    """
    narrowed = array.astype(np.int32)
    if not np.array_equal(narrowed, array):
        raise ValueError(f"{name!r} has numbers of more than 32 bits, and LiteRT computes with 32")
    return narrowed


class Session:
    """A model for each shape that it was made for."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open the files of all shapes.

        Raises:
            ValueError: A file cannot be read or does not fit its shape; or the model is for another device.
        """
        require_cpu(job)
        artifact = job["input"]
        index, specs = read_index(artifact["path"]), artifact["inputs"]
        self._names = [spec["name"] for spec in specs]
        if any([spec["name"] for spec in index[side]] != [spec["name"] for spec in artifact[side]] for side in index):
            raise ValueError(f"{INDEX} names other inputs or outputs than the model")
        self._models: dict[tuple[tuple[int, ...], ...], Model] = {}
        for shape in artifact["static_shapes"]:
            path = find_file(artifact["path"], shape)
            key = find_key(specs, shape["sizes"])
            if key not in self._models:
                self._models[key] = Model(path, index, shape["sizes"], int(job["threads"]))
        if not self._models:
            raise ValueError("the model says no shapes that it was made for")

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name, of one of the shapes."""
        key = tuple([feeds[name].shape for name in self._names])
        model = self._models.get(key)
        if model is None:
            raise ValueError(f"made for the shapes {sorted(self._models)} and fed {key}")
        return model.run(feeds)

    def count_parts(self) -> int:
        """Return the largest number of parts that XNNPACK computes of any file."""
        return max(model.count_parts() for model in self._models.values())


def find_key(specs: list[Json], sizes: Json) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs at some sizes of their dynamic dimensions.

    Raises:
        ValueError: The sizes are no sizes, or one is missing.
    """
    if any(isinstance(dim, str) for spec in specs for dim in spec["shape"]):
        found: tuple[tuple[int, ...], ...] = shapes.require_shapes(specs, sizes)
        return found
    return tuple(tuple(spec["shape"]) for spec in specs)


def _require_tensors(name: str, specs: list[Json], details: Json, sizes: Json) -> None:
    if {spec["key"] for spec in specs} != details.keys():
        raise ValueError(f"{name} has the tensors {sorted(details)}, and not those of {INDEX}")
    for spec in specs:
        found = details[spec["key"]]
        dtype, shape = np.dtype(found["dtype"]), tuple(int(size) for size in found["shape"])
        wanted = _NARROWED.get(spec["dtype"], np.dtype(spec["dtype"]))
        sized = tuple(sizes.get(dim) if isinstance(dim, str) else dim for dim in spec["shape"])
        if dtype != wanted or shape != sized:
            raise ValueError(f"{name} has {spec['name']!r} as {dtype} {shape}, and not as {wanted} {sized}")


def describe(job: Json) -> Json:
    """Return the specs of a saved model, each of whose files is opened and compared with them.

    Raises:
        KeyError: It is of another format.
        ValueError: As ``Session``.
    """
    artifact = job["input"]
    if artifact["format"] != "tflite":
        raise KeyError(artifact["format"])
    index = read_index(artifact["path"])
    for shape in artifact["static_shapes"]:
        Model(find_file(artifact["path"], shape), index, shape["sizes"], 1)
    return {side: [{n: spec[n] for n in ("name", "dtype", "shape")} for spec in index[side]] for side in index}
