"""Sessions of ONNX Runtime on one GPU, refused if they fall back to the CPU.

ONNX Runtime drops a provider that cannot be loaded without an error, and assigns operators that a provider lacks to
the CPU. The first case is visible in ``session.get_providers()``, the second in a profile of one call.
"""

from __future__ import annotations

import json
import math
import threading
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

CPU = "CPUExecutionProvider"
PROVIDERS = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
"""Values of the run option ``provider``, with ONNX Runtime's names."""

_SIZES = {
    *("Shape", "Size", "Gather", "Slice", "Concat", "Unsqueeze", "Squeeze", "Cast", "Range", "ConstantOfShape"),
    *(
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Equal",
        "Where",
        "Reshape",
        "Identity",
        "Constant",
        "MemcpyToHost",
        "MemcpyFromHost",
    ),
}
"""Operators that ONNX Runtime places on the CPU on purpose if they compute the sizes of other arrays."""
_CAPTURED = 16
"""The number of shapes for which a session retains a CUDA graph, each with its own GPU memory."""
_SMALL = 16  # numbers of an output: more than the rank of any array


class FallbackError(ValueError):
    """A model for the GPU runs on the CPU."""


class Session:
    """An ONNX model on a GPU: arrays in host memory in and out.

    ``run`` returns when the outputs are in host memory, so no further wait is needed.
    """

    has_cache = False

    def __init__(self, session: Any) -> None:
        """Store a session of ONNX Runtime."""
        self.session = session
        self._outputs = [output.name for output in session.get_outputs()]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        return dict(zip(self._outputs, self.session.run(self._outputs, feeds), strict=True))


@dataclass(frozen=True)
class Captured:
    """A CUDA graph for one shape of every input: the arrays on the GPU that it reads and writes.

    Attributes:
        inputs: The arrays to which the feeds are copied, by name.
        outputs: The arrays that it writes, by name.
        binding: Both, as an object of ONNX Runtime.
        options: The options of a run, with the graph's number.
    """

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    binding: Any
    options: Any


class GraphSession(Session):
    """A session whose calls are captured, one CUDA graph for each shape, and replayed: all kernels are started at once.

    Graphs are retained for the first sixteen shapes; later shapes run without. One call runs at a time.
    Source: https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html, "Using CUDA Graphs".
    """

    def __init__(self, session: Any, *, number: int) -> None:
        """Store a session of ONNX Runtime that may capture, and the GPU's number."""
        super().__init__(session)
        self._number, self._lock = number, threading.Lock()
        self._captured: dict[Any, Captured] = {}

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        shapes = tuple((name, array.shape, array.dtype.str) for name, array in sorted(feeds.items()))
        with self._lock:
            if shapes not in self._captured:
                if len(self._captured) == _CAPTURED:
                    return self._call(feeds)
                self._captured[shapes] = self._prepare(feeds)
            captured = self._captured[shapes]
            for name, array in feeds.items():
                captured.inputs[name].update_inplace(np.ascontiguousarray(array))
            self.session.run_with_iobinding(captured.binding, captured.options)
            return {name: value.numpy() for name, value in captured.outputs.items()}

    def _call(self, feeds: dict[str, Array]) -> dict[str, Array]:
        found = self.session.run(self._outputs, feeds, _number_graph(-1))
        return dict(zip(self._outputs, found, strict=True))

    def _prepare(self, feeds: dict[str, Array]) -> Captured:
        """Return arrays on the GPU for feeds of these shapes; the first run with them captures the graph."""
        place, binding = ("cuda", self._number), self.session.io_binding()
        inputs = {name: ort.OrtValue.ortvalue_from_numpy(array, *place) for name, array in feeds.items()}
        outputs = {
            name: ort.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype, *place)
            for name, array in self._call(feeds).items()
        }
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in outputs.items():
            binding.bind_ortvalue_output(name, value)
        return Captured(inputs, outputs, binding, _number_graph(len(self._captured) + 1))


def _number_graph(number: int) -> Any:
    """Return the options of a run with its graph's number; -1 captures none."""
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options


def open_session(job: Json) -> Session:
    """Open ``model.onnx`` on the job's GPU, with the provider in its run options.

    Raises:
        FallbackError: The provider is not used.
        ValueError: The model is not for a GPU.
    """
    settings = job["input"]["run_options"]
    graphs = settings.get("graphs", False) and job["input"]["metadata"].get("graphs", False)
    return _open_session(job, {**settings, "graphs": graphs})


def _open_session(job: Json, settings: Json) -> Session:
    session = _open(job, settings, _make_options(job))
    if not settings["graphs"]:
        return Session(session)
    return GraphSession(session, number=int(job["input"]["device"].partition(":")[2] or 0))


def place(job: Json) -> dict[str, Any]:
    """Return the ``placement`` of one call at the first of the job's shapes, and whether ``graphs`` can be captured.

    The placement is the number of operators that each provider ran, by its name.

    Raises:
        FallbackError: The provider is not used, or operators with real computations run on the CPU.
        ValueError: The model is not for a GPU.
    """
    options = _make_options(job)
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(job["temporary"], "placement"))
    settings = {"graphs": False, "provider": job["adaptor"].rpartition(".")[2], **job["options"]}
    job = {**job, "input": {**job["input"], "device": "cuda:0"}}
    feeds = make_feeds(job["input"]["inputs"], job["shapes"][0]["sizes"])
    session = _open(job, {**settings, "graphs": False}, options)
    session.run(None, feeds)
    placed = read_placement(json.loads(Path(session.end_profiling()).read_text()))
    require_placement(placed, PROVIDERS[settings["provider"]])
    placement = dict(Counter(provider for provider, *_ in placed))
    return {"placement": placement, "graphs": settings["graphs"] and _can_capture(job, settings, feeds)}


def _can_capture(job: Json, settings: Json, feeds: dict[str, Array]) -> bool:
    """Whether calls can be replayed: not if a loop, or a copy of arrays to the CPU, is between the operators."""
    try:
        session = _open_session(job, settings)
        for _ in range(2):  # the second call is a replay
            session.run(feeds)
    except Exception:  # noqa: BLE001 - the exceptions of ONNX Runtime and CUDA have no other class in common
        traceback.print_exc()  # into the step's log
        return False
    return True


def make_feeds(inputs: list[Json], sizes: dict[str, int]) -> dict[str, Array]:
    """Return inputs of ones, in the shapes of a model's inputs."""
    return {
        spec["name"]: np.ones(
            [sizes.get(dim, 1) if isinstance(dim, str) else dim for dim in spec["shape"]], spec["dtype"]
        )
        for spec in inputs
    }


def read_placement(events: list[Json]) -> list[tuple[str, str, int]]:
    """Return the provider, the operator, and the size of its largest output, for each operator of a profile."""
    return [
        (each["provider"], each["op_name"], _find_largest(each["output_type_shape"]))
        for each in (event["args"] for event in events if event["name"].endswith("_kernel_time"))
    ]


def _find_largest(outputs: list[dict[str, list[int]]]) -> int:
    return max((math.prod(shape) for output in outputs for shape in output.values()), default=0)


def require_placement(placed: list[tuple[str, str, int]], wanted: str) -> None:
    """Refuse a model that a provider does not run.

    Raises:
        FallbackError: No operator ran there, or one ran on the CPU that does more than compute a size.
    """
    strays = Counter(
        operator
        for provider, operator, size in placed
        if provider == CPU and not (operator in _SIZES and size <= _SMALL)
    )
    if strays:
        most = ", ".join(f"{count} {operator}" for operator, count in strays.most_common(5))
        raise FallbackError(f"asked for {wanted}, and these operators ran on the CPU: {most}")
    if not any(provider == wanted for provider, *_ in placed):
        raise FallbackError(f"asked for {wanted}, which computed no operator of the model")


def _open(job: Json, settings: Json, options: Any) -> Any:
    kind, _, number = job["input"]["device"].partition(":")
    if kind != "cuda":
        raise ValueError(f"the model is for the device {kind}, and this toolchain computes on NVIDIA GPUs only")
    wanted = PROVIDERS[settings.get("provider", "cuda")]
    given = {"device_id": number or "0"}
    flags = {"use_tf32": settings.get("tf32", True), "enable_cuda_graph": settings.get("graphs", False)}
    cuda = (PROVIDERS["cuda"], {**given, **{name: str(int(flag)) for name, flag in flags.items()}})
    providers = [cuda] if wanted == PROVIDERS["cuda"] else [(wanted, given), cuda]
    if wanted not in ort.get_available_providers():
        raise FallbackError(f"asked for {wanted}, and this build of ONNX Runtime has {ort.get_available_providers()}")
    ort.preload_dlls()  # CUDA and cuDNN from the environment's own wheels, which the loader does not find
    session = ort.InferenceSession(str(Path(job["input"]["path"], "model.onnx")), options, providers=providers)
    if wanted not in (used := session.get_providers()):
        raise FallbackError(
            f"asked for {wanted}, and ONNX Runtime fell back to {', '.join(used)}: the GPU, its driver or the "
            "provider's libraries are missing; the log names them"
        )
    session.disable_fallback()  # otherwise it would continue on the CPU after a GPU error
    return session


def _make_options(job: Json) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(job["threads"])
    return options
