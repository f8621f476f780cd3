"""Read IR, describe it, and run it on NumPy arrays. Needs only OpenVINO."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from hone_runtime.sessions import key_values
from hone_runtime.sessions.streams import Pool
from hone_runtime.worker.imports import require_cpu, set_variables

# The telemetry starts a thread that prevents the process from exiting; only CI and a file in the user's home disable
# it.
with set_variables(CI="true"):
    import openvino as ov

    from . import calls


Arrays = dict[str, np.ndarray[Any, Any]]

_PART = 1 << 16  # bytes of an IR that are parsed at a time
_DIGITS = 20  # no 64-bit number has so many digits
DIMENSIONS = "kedro_hone_dimensions"  # the IR's key for the names of dimensions, which OpenVINO itself drops
ORDER = "beam_idx"
_FIRST = threading.Lock()
_OWN = frozenset({key_values.POSITIONS, ORDER})
"""Inputs of an IR with a cache that callers never pass."""


class Session:
    """An IR compiled for the CPU: inputs are shared during a call, outputs are copies.

    A request runs one call at a time. There is one, which uses all cores, unless the model is compiled for throughput:
    then there are two for each stream, so that one computes while the results of the other are copied.

    If the IR has a state, a cache of keys and values, each run starts with an empty one; ``start`` returns sequences
    that retain it. Names are those of the IR: compilation also gives a tensor the names of those that it is fused with.
    """

    def __init__(self, compiled: Any, model: Any, folder: str = "") -> None:
        self._inputs = {find_name(port): index for index, port in enumerate(model.inputs)}
        self._outputs = [find_name(port) for port in model.outputs]
        self._compiled, self._folder, self._dtypes = compiled, folder, calls.find_dtypes(model.inputs)
        requests = [compiled.create_infer_request() for _ in range(_count_requests(compiled))]
        self._requests, self._stateful = Pool(requests), bool(requests[0].query_state())
        self.has_cache = self._stateful and ORDER in self._inputs

    def run(self, feeds: Arrays) -> Arrays:
        """Return every output by name, for inputs by name."""
        request = self._requests.take()
        try:
            if self._stateful:
                request.reset_state()
                feeds = fill(feeds, self._inputs)
            return self._infer(request, feeds)
        finally:
            self._requests.give(request)

    def count_operators(self, feeds: Arrays) -> dict[str, dict[str, int]]:  # noqa: ARG002 - the same for all feeds
        """Return how many operators the compiled graph has, by precision and kind; the file is read again for it."""
        from . import operators

        return operators.count(self._compiled, read(self._folder))

    def start(self) -> Continuation:
        """Return sequences that grow, without any computed columns; there may be several at the same time.

        Raises:
            ValueError: The IR has no cache.
        """
        if not self.has_cache:
            raise ValueError("the IR has no cache of keys and values")
        request = self._compiled.create_infer_request()  # each request has its own state

        def advance(feeds: Arrays, past: int) -> Arrays:
            return self._infer(request, fill(feeds, self._inputs, past))

        return Continuation(advance)

    def _infer(self, request: Any, feeds: Arrays) -> Arrays:
        indexed = {self._inputs[name]: array for name, array in feeds.items()}
        return dict(zip(self._outputs, calls.infer(request, indexed, self._dtypes), strict=True))


def _count_requests(compiled: Any) -> int:
    # It is returned as a text, or by its class as PerformanceMode.THROUGHPUT, which equals no text.
    if str(compiled.get_property("PERFORMANCE_HINT")).rpartition(".")[2] != "THROUGHPUT":
        return 1
    return 2 * max(1, int(compiled.get_property("NUM_STREAMS")))


class Continuation:
    """Sequences that grow together: their computed keys and values are retained.

    Attributes:
        length: The number of computed columns.
    """

    def __init__(self, advance: Callable[[Arrays, int], Arrays]) -> None:
        self._advance = advance
        self.length = 0

    def advance(self, feeds: Arrays, order: np.ndarray[Any, Any] | None = None) -> Arrays:
        """Return the outputs of new columns.

        Args:
            feeds: The tokens of the new columns, the mask of all columns, and the new columns' positions, by default
                counted from the first column.
            order: For each row the former row that it continues; by default its own.
        """
        given = feeds if order is None else {**feeds, ORDER: order.astype(np.int32)}
        outputs = self._advance(given, self.length)
        self.length += feeds[key_values.IDS].shape[1]
        return outputs


def fill(feeds: Arrays, names: Iterable[str], past: int = 0) -> Arrays:
    """Return feeds with an IR's own inputs added: unchanged order of rows, and consecutive positions."""
    if not _OWN.intersection(names):
        return feeds
    rows, columns = feeds[key_values.IDS].shape
    own = {
        ORDER: np.arange(rows, dtype=np.int32),
        key_values.POSITIONS: np.broadcast_to(np.arange(past, past + columns), (rows, columns)).copy(),
    }
    return {**{name: array for name, array in own.items() if name in names}, **feeds}


def open_session(job: dict[str, Any], shapes: Mapping[str, Sequence[int]] | None = None) -> Session:
    """Compile the job's ``model.xml`` for the CPU with its run options, which are properties of OpenVINO.

    With ``shapes``, those of all inputs by name, it accepts no others.

    Raises:
        ValueError: The files cannot be read, or do not fit the shapes; or the model is for another device. Or this CPU
            does not support the requested precision, which OpenVINO would silently replace by another.
    """
    require_cpu(job)
    with _FIRST:
        _call_once()
    properties = {**job["input"].get("run_options", {}), "INFERENCE_NUM_THREADS": int(job["threads"])}
    if "NUM_STREAMS" in properties:  # one for each thread at most: a winner may be opened on a smaller machine
        properties["NUM_STREAMS"] = min(properties["NUM_STREAMS"], properties["INFERENCE_NUM_THREADS"])
    model = read(job["input"]["path"])
    if model.get_sinks():  # otherwise the cache is stored in eight bits
        properties["KV_CACHE_PRECISION"] = properties.get("INFERENCE_PRECISION_HINT", "f32")
    try:
        if shapes is not None:
            model.reshape({name: list(shape) for name, shape in shapes.items()})
        compiled = ov.Core().compile_model(model, "CPU", properties)
    except RuntimeError as error:
        if shapes is None:
            raise
        raise ValueError(f"model.xml does not fit the shapes {dict(shapes)}: {error}") from error
    wanted = properties.get("INFERENCE_PRECISION_HINT")
    got = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if wanted not in (None, got):
        raise ValueError(f"OpenVINO computes in {got} on this CPU, not in {wanted}")
    return Session(compiled, model, str(job["input"]["path"]))


@functools.cache
def _call_once() -> None:
    """Run a graph of one number: the first call in a process must not be made by several threads at once.

    In its first call, OpenVINO's binding initializes values that all calls share. It waits for Python's lock meanwhile,
    which another first call holds while it waits for these values: the process froze in most of our trials (2026.4).
    """
    number = ov.opset13.parameter([1], np.float32)
    model = ov.Model([ov.opset13.result(number)], [number])
    request = ov.Core().compile_model(model, "CPU").create_infer_request()
    request.infer({0: np.zeros(1, np.float32)}, share_inputs=True, share_outputs=False)


def count_bytes(folder: str) -> int:
    """Return the size of the weights in bytes; 0 if the file is missing, which is reported when it is opened."""
    path = Path(folder, "model.bin")
    return path.stat().st_size if path.is_file() else 0


def read(folder: str) -> Any:
    """Read ``model.xml`` and ``model.bin``.

    Raises:
        ValueError: They cannot be read.
    """
    for name in ("model.xml", "model.bin"):
        if not Path(folder, name).is_file():
            raise ValueError(f"{name} is missing")
    if problem := _find_problem(Path(folder, "model.xml"), Path(folder, "model.bin").stat().st_size):
        raise ValueError(f"model.xml cannot be read: {problem}")
    try:
        return ov.Core().read_model(Path(folder, "model.xml"))
    except RuntimeError as error:
        raise ValueError(f"model.xml and model.bin cannot be read: truncated, corrupt or no IR ({error})") from error


def _find_problem(path: Path, weights: int) -> str:
    """Return why a file is not XML with the root ``net`` and constants within ``weights`` bytes; empty if it is.

    OpenVINO detects the format from the content, for example ONNX. Also, the number of elements of a constant may
    exceed 64 bits there, so that it reads memory behind the weights.
    """
    root: dict[str, str] = {}
    problems: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        root.setdefault("tag", tag)
        if "offset" in attributes and "size" in attributes and not _fits(attributes, weights):
            problems.append(f"a constant is larger than its bytes: {str(attributes)[:200]}")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = lambda *_: problems.append("it is not an IR: an IR has no document type")
    with path.open("rb") as file:
        if file.read(1) != b"<":
            return "it is not an IR"
        file.seek(0)
        with contextlib.suppress(expat.ExpatError):  # OpenVINO checks the rest
            while not problems and (part := file.read(_PART)):
                parser.Parse(part, False)  # noqa: FBT003 - expat takes no names
    return problems[0] if problems else "" if root.get("tag") == "net" else "it is not an IR"


def _fits(constant: dict[str, str], weights: int) -> bool:
    """Whether a constant's bytes are within the weights, and it has no more elements than these bytes have bits."""
    sizes = [constant["size"], constant["offset"], *filter(None, constant.get("shape", "").split(","))]
    if not all(text.strip().isdecimal() and len(text) < _DIGITS for text in sizes):
        return False
    size, offset, *shape = map(int, sizes)
    return offset + size <= weights and math.prod(shape) <= 8 * size


def find_name(port: Any) -> str:
    """Return the tensor's name: the first of its names, or its node's if it has none."""
    return str(min(port.get_names(), default=port.get_node().get_friendly_name()))


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs, the outputs and the digest of the graph of ``model.xml``.

    Raises:
        ValueError: The files cannot be read.
    """
    folder = job["input"]["path"]
    model = read(folder)
    names = json.loads(str(model.get_rt_info(DIMENSIONS).value)) if model.has_rt_info(DIMENSIONS) else {}
    own = _OWN - names.keys() if model.get_sinks() else frozenset()
    sides = {"inputs": [port for port in model.inputs if find_name(port) not in own], "outputs": model.outputs}
    specs = {side: [_spec(port, names) for port in ports] for side, ports in sides.items()}
    return {**specs, "graph": _digest(Path(folder))}


def _spec(port: Any, names: dict[str, list[int | str]]) -> dict[str, Any]:
    """Return a tensor's specification; dimensions have the names from the IR's source."""
    name, partial = find_name(port), port.get_partial_shape()
    if partial.rank.is_dynamic:
        raise ValueError(f"the rank of {name!r} is not fixed")
    known = dict(enumerate(names.get(name, [])))
    shape: list[int | str] = []
    for axis, dim in enumerate(partial):
        noted, fresh = known.get(axis), f"dim_{axis}" if axis else "batch"
        shape.append(dim.get_length() if dim.is_static else noted if isinstance(noted, str) else fresh)
    element = port.get_element_type()
    dtype = "bfloat16" if element.get_type_name() == "bf16" else np.dtype(element.to_dtype()).name
    return {"name": name, "dtype": dtype, "shape": shape}


def _digest(folder: Path) -> str:
    """Return a digest of operators, attributes, edges and the bytes of weights, without names, offsets and rt_info."""
    weights = memoryview((folder / "model.bin").read_bytes())

    def strip(element: ET.Element) -> list[Any]:
        kept = {key: value for key, value in element.attrib.items() if key not in {"name", "names", "friendly_name"}}
        if "offset" in kept and "size" in kept:
            start = int(kept.pop("offset"))
            kept["bytes"] = hashlib.sha256(weights[start : start + int(kept["size"])]).hexdigest()
        children = [strip(child) for child in element if child.tag not in {"rt_info", "meta_data"}]
        return [element.tag, sorted(kept.items()), (element.text or "").strip(), children]

    tree = ET.parse(folder / "model.xml")  # noqa: S314 (expat bounds entities, the host bounds workers)
    return "sha256:" + hashlib.sha256(json.dumps(strip(tree.getroot())).encode()).hexdigest()
