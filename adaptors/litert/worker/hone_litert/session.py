"""Run LiteRT models: one file for each shape, opened with XNNPACK and the recipe's threads.

The index contains the specs of a model, each with the ``key`` of its tensor in the files' signature.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from hone_runtime.sessions import compiled
from hone_runtime.sessions.operators import count_kinds
from hone_runtime.sessions.streams import PooledSession, share_threads
from hone_runtime.worker.imports import require_cpu

ENDING = ".tflite"
SIGNATURE = "serving_default"

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

NARROWED = {"int64": np.dtype(np.int32)}
"""Types that files store as another type; all others are stored unchanged."""


def read_index(folder: str) -> Json:
    """Return the specs of a folder's model, with the keys of their tensors.

    Raises:
        ValueError: The index is missing or invalid.
    """
    return dict(compiled.read_index(folder, "key"))


class Session:
    """The file for one shape; calls from several threads are serialized."""

    has_cache = False

    def __init__(self, folder: str, shape: Json, index: Json, threads: int) -> None:
        """Open a file.

        Raises:
            ValueError: It cannot be read, or its inputs or outputs differ from the index.
        """
        path = compiled.require_file(folder, shape, ENDING)
        try:
            self.interpreter = Interpreter(str(path), num_threads=threads)
            self.interpreter.allocate_tensors()
            signature = self.interpreter.get_signature_runner(SIGNATURE)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path.name} cannot be opened: {str(error).strip()[:300]}") from error
        self._turn = threading.Lock()
        details = {"inputs": signature.get_input_details(), "outputs": signature.get_output_details()}
        for side, specs in index.items():
            _require_tensors(path.name, specs, details[side], shape["sizes"])
        self._inputs = [
            (spec["name"], details["inputs"][spec["key"]]["index"], spec["dtype"] in NARROWED)
            for spec in index["inputs"]
        ]
        self._outputs = [
            (spec["name"], details["outputs"][spec["key"]]["index"], np.dtype(spec["dtype"]))
            for spec in index["outputs"]
        ]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name.

        Raises:
            ValueError: A 64-bit number does not fit into the 32 bits of the file's type.
        """
        with self._turn:  # an interpreter has only one set of tensors
            for name, index, narrowed in self._inputs:
                self.interpreter.set_tensor(index, narrow(name, feeds[name]) if narrowed else feeds[name])
            self.interpreter.invoke()
            return {
                name: self.interpreter.get_tensor(index).astype(dtype, copy=False)
                for name, index, dtype in self._outputs
            }

    def count_operators(self, feeds: dict[str, Array]) -> dict[str, dict[str, int]]:  # noqa: ARG002 - as in the file
        """Return how many operators the file has, by precision and kind; XNNPACK computes with the same types."""
        types = {each["index"]: np.dtype(each["dtype"]).name for each in self.interpreter.get_tensor_details()}
        nodes = self.interpreter._get_ops_details()  # noqa: SLF001 - there is no public name
        return count_kinds(
            (node["op_name"], *([types[i] for i in node[side] if i in types] for side in ("inputs", "outputs")))
            for node in nodes
            if node["op_name"] != "DELEGATE"
        )

    def count_parts(self) -> int:
        """Return the number of partitions that XNNPACK computes: 1 if it computes the whole graph; 0 if nothing."""
        nodes = self.interpreter._get_ops_details()  # noqa: SLF001 - there is no public name
        return sum(node["op_name"] == "DELEGATE" for node in nodes)


def narrow(name: str, array: Array) -> Array:
    """Return 64-bit integers as 32-bit integers.

    Raises:
        ValueError: A number does not fit.
    """
    narrowed = array.astype(np.int32)
    if not np.array_equal(narrowed, array):
        raise ValueError(f"{name!r} has numbers of more than 32 bits, and LiteRT computes with 32")
    return narrowed


def open_model(job: Json) -> Any:
    """Return a session with the files for all shapes that a model was made for.

    Raises:
        ValueError: A file cannot be read or does not fit its shape; or the model is for another device.
    """
    require_cpu(job)
    artifact, threads = job["input"], int(job["threads"])
    index = read_index(artifact["path"])
    if any([spec["name"] for spec in index[side]] != [spec["name"] for spec in artifact[side]] for side in index):
        raise ValueError(f"{compiled.INDEX} names other inputs or outputs than the model")
    streams = artifact.get("run_options", {}).get("streams")

    def open_one(shape: Json, _: compiled.Key) -> Any:
        if streams is None:
            return Session(artifact["path"], shape, index, threads)
        count, each = share_threads(threads, streams)
        return PooledSession([Session(artifact["path"], shape, index, each) for _ in range(count)])

    return compiled.open_shapes(artifact, artifact["inputs"], open_one)


def _require_tensors(name: str, specs: list[Json], details: Json, sizes: Json) -> None:
    if {spec["key"] for spec in specs} != details.keys():
        raise ValueError(f"{name} has the tensors {sorted(details)}, and not those of {compiled.INDEX}")
    for spec in specs:
        found = details[spec["key"]]
        dtype, shape = np.dtype(found["dtype"]), tuple(int(size) for size in found["shape"])
        wanted = NARROWED.get(spec["dtype"], np.dtype(spec["dtype"]))
        sized = tuple(sizes.get(dim) if isinstance(dim, str) else dim for dim in spec["shape"])
        if dtype != wanted or shape != sized:
            raise ValueError(f"{name} has {spec['name']!r} as {dtype} {shape}, and not as {wanted} {sized}")


def describe(job: Json) -> Json:
    """Return the specs of a saved model; each of its files is opened and compared with them.

    Raises:
        KeyError: It is of another format.
        ValueError: As in ``open_model``.
    """
    artifact = job["input"]
    if artifact["format"] != "tflite":
        raise KeyError(artifact["format"])
    index = read_index(artifact["path"])
    for shape in artifact["static_shapes"]:
        Session(artifact["path"], shape, index, 1)
    return {side: [{n: spec[n] for n in ("name", "dtype", "shape")} for spec in index[side]] for side in index}
