"""Run ONNX models on NumPy arrays, which requires only ONNX Runtime; and save optimized graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from hone_runtime.sessions import key_values
from hone_runtime.sessions import shapes as shaped
from hone_runtime.sessions.streams import PooledSession, share_threads
from hone_runtime.worker.imports import require_cpu

from .threads import ALONE, choose_alone, is_alone

Array = np.ndarray[Any, Any]

PAST, PRESENT, SHIFT = "past_key_values.", "present.", "position_shift"
"""Prefixes of the cache's inputs and outputs, and the name of the input that is added to the positions. These inputs
have defaults."""

_UNFIT = {"Fail", "InvalidArgument", "InvalidGraph", "RuntimeException"}
"""Exceptions of ONNX Runtime if a graph does not fit some sizes; the last one is also raised if memory is short."""

SPIN_US = 500
"""The time in microseconds for which threads spin after a call, if a process has threads of several sessions.


It is long enough for the next call of a burst. The default is some tens of milliseconds, during which another
session's calls took twice as long (two cores with AVX2)."""


class Session:
    """An ONNX model in ONNX Runtime on the CPU, opened with the usual settings: default waiting policy and arenas.

    If the graph has a cache of keys and values, each run starts with an empty one; ``start`` returns one that is
    retained.
    """

    def __init__(self, path: Path, options: Any) -> None:
        self._path = path
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        own = {value.name: value.shape for value in self._session.get_overridable_initializers()}
        cache = {name: shape for name, shape in own.items() if name.startswith(PAST)}
        kept = {PRESENT + name.removeprefix(PAST) for name in cache}
        names = [output.name for output in self._session.get_outputs()]
        self.has_cache = bool(kept) and kept <= set(names)
        self._cache = cache if self.has_cache else {}
        self.shapes = {value.name: value.shape for value in self._session.get_inputs()}
        self.inputs = [*self.shapes, *(name for name in own if name == SHIFT)]
        self._outputs = [name for name in names if not self.has_cache or name not in kept]
        self._single = self._outputs[0] if len(self._outputs) == 1 else None
        self._run = self._session._sess.run  # noqa: SLF001 - the checks of its public form take microseconds

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        # Without this check a missing input would be an omitted operand, which some operators accept.
        run = self._run if self.shapes.keys() <= feeds.keys() else self._session.run
        found = run(self._outputs, feeds, None)
        if self._single is not None:  # zip takes half a microsecond
            return {self._single: found[0]}
        return dict(zip(self._outputs, found, strict=True))

    def count_operators(self, feeds: dict[str, Array]) -> dict[str, dict[str, int]]:
        """Return how many operators run for these feeds, by precision and kind; the model is opened again for it."""
        from . import operators

        return operators.count(self._path, self._session.get_session_options(), feeds)

    def time_operators(self, feeds: dict[str, Array]) -> dict[str, float]:
        """Return the seconds of each operator in one call, by its name; the model is opened again for it."""
        from . import operators

        return operators.measure(self._path, self._session.get_session_options(), feeds)

    def start(self) -> Continuation:
        """Return sequences that grow, without any computed columns; there may be several at the same time.

        Raises:
            ValueError: The graph has no cache.
        """
        if not self.has_cache:
            raise ValueError("the graph has no cache of keys and values")
        return Continuation(self._session, inputs=self.inputs, outputs=self._outputs, cache=self._cache)


class Continuation:
    """Sequences that grow together: their computed keys and values are retained as values of ONNX Runtime.

    Attributes:
        length: The number of computed columns.
    """

    def __init__(
        self, session: Any, *, inputs: Sequence[str], outputs: Sequence[str], cache: Mapping[str, Sequence[Any]]
    ) -> None:
        """Store a session, its inputs, the outputs to return, and the shapes of the cache."""
        self._session, self._inputs, self._outputs, self._cache = session, inputs, outputs, cache
        self._kept: dict[str, Any] = {}
        self.length = 0

    def advance(self, feeds: dict[str, Array], order: Array | None = None) -> dict[str, Array]:
        """Return the outputs of new columns.

        Args:
            feeds: The tokens of the new columns, the mask of all columns, and the new columns' positions, by default
                counted from the first column.
            order: For each row the former row that it continues; by default its own.
        """
        rows, columns = feeds[key_values.IDS].shape
        if not self._kept:
            shapes = {name: (rows, shape[1], 0, shape[3]) for name, shape in self._cache.items()}
            self._kept = {name: _lower(np.empty(shape, np.float32)) for name, shape in shapes.items()}
        elif order is not None and not np.array_equal(order, np.arange(len(order))):
            self._kept = reorder(self._kept, order)
        given = _locate(feeds, self._inputs, self.length)
        fed = {**{name: _lower(array) for name, array in given.items()}, **self._kept}
        names = [*self._outputs, *(PRESENT + name.removeprefix(PAST) for name in self._kept)]
        values = self._session.run_with_ort_values(names, fed)
        count = len(self._outputs)
        self._kept = dict(zip(self._kept, values[count:], strict=True))
        self.length += columns
        return {name: value.numpy().copy() for name, value in zip(self._outputs, values[:count], strict=True)}


def reorder(kept: dict[str, Any], order: Array) -> dict[str, Any]:
    """Return keys and values with reordered rows; one copy of each."""
    return {name: _lower(value.numpy()[order]) for name, value in kept.items()}


def _locate(feeds: dict[str, Array], inputs: Sequence[str], past: int) -> dict[str, Array]:
    """Return feeds with positions in the graph's form: absolute, or as an offset from the usual ones."""
    given = dict(feeds)
    rows, columns = feeds[key_values.IDS].shape
    usual = np.broadcast_to(np.arange(past, past + columns), (rows, columns))
    positions = given.pop(key_values.POSITIONS, usual)
    if key_values.POSITIONS in inputs:
        given[key_values.POSITIONS] = positions
    elif SHIFT in inputs:
        given[SHIFT] = positions - usual
    return given


def _lower(array: Array) -> Any:
    """Return a value of ONNX Runtime that shares the array's memory."""
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))


def load(job: dict[str, Any]) -> Any:
    """Open a job's model as ``open_streams`` does, and again for each shape in its metadata."""
    several = bool(shaped.list_compiled(job["input"]))
    own = {**job, "shares_cores": True} if several else job
    return shaped.open_shaped(own, open_streams, weights=_count_bytes(Path(job["input"]["path"])))


def open_streams(job: dict[str, Any], shapes: Mapping[str, Sequence[int]] | None = None) -> Any:
    """Open ``model.onnx`` as ``open_session`` does: once, or for the ``streams`` of its run options.

    A stream with several threads is a session. One with a single thread computes in the caller's, and all can share a
    session.
    """
    streams = job["input"].get("run_options", {}).get("streams")
    if streams is None:
        return open_session(job, shapes)
    count, threads = share_threads(int(job["threads"]), streams)
    own = {**job, "threads": threads, "shares_cores": True}
    if threads == 1:
        return PooledSession([open_session(own, shapes)] * count)
    return PooledSession([open_session(own, shapes) for _ in range(count)])


def open_session(job: dict[str, Any], shapes: Mapping[str, Sequence[int]] | None = None) -> Session:
    """Open ``model.onnx``; the run option ``graph_optimization`` sets how far its graph is optimized now.

    With ``shapes``, those of all inputs by name, it accepts no others, and values that depend on them are folded now. A
    graph that was optimized when it was saved still has parts for any size, such as branches. If the job
    ``shares_cores`` with other sessions, its threads spin for ``SPIN_US`` only. Shapes that the metadata list as those
    of a single thread are computed in the caller's.

    Raises:
        ValueError: The file cannot be read, its external data is outside its folder, or it is for another device; or
            it does not fit the shapes.
    """
    require_cpu(job)
    job = {**job, "threads": 1} if is_alone(job, shapes) else job
    level = job["input"].get("run_options", {}).get("graph_optimization", "all")
    options = _make_options(job, "basic" if shapes and level == "disabled" else level)
    for name, size in _list_dimensions(job, shapes or {}).items():
        options.add_free_dimension_override_by_name(name, size)
    try:
        opened = Session(Path(job["input"]["path"]) / "model.onnx", options)
    except Exception as error:  # ONNX Runtime's exception classes differ between versions, but their messages do not
        text = str(error)
        if shapes and type(error).__name__ in _UNFIT and "alloc" not in text:
            raise ValueError(f"model.onnx does not fit the shapes {dict(shapes)}: {text}") from error
        if "xternal data" in text and ("escapes" in text or "outside" in text or "under" in text):
            raise ValueError(f"external data is outside the model's folder: {text}") from error
        if any(sign in text for sign in ("INVALID_PROTOBUF", "Protobuf parsing failed", "No graph was found")):
            raise ValueError("model.onnx cannot be read: it is truncated, corrupt or no ONNX file") from error
        raise
    if shapes and any(opened.shapes.get(name) != list(shape) for name, shape in shapes.items()):
        raise ValueError(f"model.onnx has other dimensions than its description: {opened.shapes}")
    return opened


def save_rewritten(job: dict[str, Any]) -> dict[str, Any]:
    """Save ``model.onnx`` as optimized by ONNX Runtime for this CPU.

    The input is a staged copy: otherwise, for a model with external data, the result would refer to files that are not
    in the output.
    """
    from . import graphs

    model = graphs.read(Path(job["input"]["path"]))
    options = _make_options(job, job["options"]["optimization"])
    options.optimized_model_filepath = str(Path(job["output"]) / "model.onnx")
    if graphs.is_large(model):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "model.onnx.data")
    Session(graphs.stage(model, job), options)
    noted = check_cache(job, rounds=bool(graphs.QUANTIZED & graphs.count(model).keys()))
    if graphs.is_estimator(model):  # no part of a tree ensemble, which may be large, is planned by shape
        return noted
    own = {"path": job["output"], "run_options": {"graph_optimization": "disabled"}}
    opened = {**job, "input": {**job["input"], **own}}
    fixed = shaped.choose_shapes(opened, open_session, weights=_count_bytes(Path(job["output"])))
    alone = choose_alone({**opened, "shares_cores": True}, fixed, open_session)
    return {"metadata": {shaped.SHAPES: fixed, **({ALONE: alone} if alone else {})}} if fixed else noted


def check_cache(job: dict[str, Any], *, rounds: bool) -> dict[str, Any]:
    """Return notes that disable the saved graph's cache if it is wrong on this machine.

    Its steps must return the logits of a single run.
    """
    if not is_cached(job):
        return {}
    opened = Session(Path(job["output"]) / "model.onnx", _make_options(job, "disabled"))
    fault = find_fault(opened, job["input"]["metadata"], rounds=rounds) if opened.has_cache else "it was lost"
    return {"metadata": {"cache": {"absent": fault}}} if fault else {}


def is_cached(job: dict[str, Any]) -> bool:
    """Return whether the metadata of a job's input declare a cache of keys and values."""
    return "absent" not in job["input"].get("metadata", {}).get("cache", {"absent": ""})


def find_fault(opened: Session, metadata: dict[str, Any], *, rounds: bool) -> str | None:
    """Return the fault in the steps of a session with a cache; None if absent."""
    source = metadata.get("transformers", {})
    words, limit = source.get("config", {}).get("vocab_size") or 2, source.get("limits", {}).get("length", 0)
    feeds = key_values.make_rows(words, limit)
    positions = feeds.pop(key_values.POSITIONS)
    feeds |= {key_values.POSITIONS: positions} if key_values.POSITIONS in opened.inputs else {}
    wanted = opened.run(feeds)["logits"]
    fault: str | None = key_values.find_fault(opened.start, feeds, wanted, whose="those of one run", rounds=rounds)
    return fault


def _count_bytes(folder: Path) -> int:
    """Return the size of a model with its external data in bytes, nearly all of it weights."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _list_dimensions(job: dict[str, Any], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the sizes of the dynamic dimensions, by name, for these input shapes."""
    specs = {spec["name"]: spec["shape"] for spec in job["input"].get("inputs", [])}
    pairs = (pair for name, shape in shapes.items() for pair in zip(specs[name], shape, strict=True))
    return {dimension: size for dimension, size in pairs if isinstance(dimension, str)}


def _make_options(job: dict[str, Any], level: str) -> Any:
    options, noted = ort.SessionOptions(), job["input"].get("metadata", {})
    if "crashes" in noted:
        options.add_session_config_entry("optimization.disable_specified_optimizers", noted["crashes"])
    if "cache" in noted:
        options.log_severity_level = 3  # otherwise it warns of each input with a default
    options.intra_op_num_threads = int(job["threads"])
    if job.get("shares_cores"):
        options.add_session_config_entry("session.intra_op.spin_duration_us", str(SPIN_US))
    name = "ORT_DISABLE_ALL" if level == "disabled" else f"ORT_ENABLE_{level.upper()}"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, name)
    return options
