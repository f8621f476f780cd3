"""Sessions of ONNX Runtime on one GPU, which are refused where it falls back to the CPU.

A provider that cannot be loaded is left out by ONNX Runtime without an error, and an operator that a provider does not
have is given to the CPU. The first is seen in ``session.get_providers()``, the second in a profile of one call.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

CPU = "CPUExecutionProvider"
PROVIDERS = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
"""The run option ``provider``, and what ONNX Runtime calls it."""

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
"""Operators that ONNX Runtime gives to the CPU on purpose, where they compute the sizes of other operators' arrays."""
_SMALL = 16  # numbers of an output: more than an array has dimensions


class FallbackError(ValueError):
    """What was to run on the GPU runs on the CPU."""


class Session:
    """An ONNX model on a GPU: arrays in the machine's memory in and out.

    ``run`` returns when the outputs are in the machine's memory, so that nothing is left to wait for.
    """

    has_cache = False

    def __init__(self, session: Any) -> None:
        """Take a session of ONNX Runtime."""
        self.session = session
        self._outputs = [output.name for output in session.get_outputs()]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        return dict(zip(self._outputs, self.session.run(self._outputs, feeds), strict=True))


def open_session(job: Json) -> Session:
    """Open ``model.onnx`` on the job's GPU, with the provider that its run options name.

    Raises:
        FallbackError: The provider is not used.
        ValueError: The model is for no GPU.
    """
    return Session(_open(job, job["input"]["run_options"], _make_options(job)))


def place(job: Json) -> dict[str, int]:
    """Return how many operators each provider ran, by its name, in one call at the first of the job's shapes.

    Raises:
        FallbackError: The provider is not used, or operators that compute run on the CPU.
        ValueError: The model is for no GPU.
    """
    options = _make_options(job)
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(job["temporary"], "placement"))
    asked = {"provider": job["adaptor"].rpartition(".")[2], **job["options"]}
    session = _open({**job, "input": {**job["input"], "device": "cuda:0"}}, asked, options)
    session.run(None, make_feeds(job["input"]["inputs"], job["shapes"][0]["sizes"]))
    placed = read_placement(json.loads(Path(session.end_profiling()).read_text()))
    require_placement(placed, PROVIDERS[asked["provider"]])
    return dict(Counter(provider for provider, *_ in placed))


def make_feeds(inputs: list[Json], sizes: dict[str, int]) -> dict[str, Array]:
    """Return ones of the shapes of a model's inputs."""
    return {
        spec["name"]: np.ones(
            [sizes.get(dim, 1) if isinstance(dim, str) else dim for dim in spec["shape"]], spec["dtype"]
        )
        for spec in inputs
    }


def read_placement(events: list[Json]) -> list[tuple[str, str, int]]:
    """Return the provider, the operator and the numbers of its largest output for each operator of a profile."""
    return [
        (each["provider"], each["op_name"], _find_largest(each["output_type_shape"]))
        for each in (event["args"] for event in events if event["name"].endswith("_kernel_time"))
    ]


def _find_largest(outputs: list[dict[str, list[int]]]) -> int:
    return max((math.prod(shape) for output in outputs for shape in output.values()), default=0)


def require_placement(placed: list[tuple[str, str, int]], wanted: str) -> None:
    """Refuse a model that a provider does not compute.

    Raises:
        FallbackError: No operator ran there, or one ran on the CPU that does more than to compute a size.
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


def _open(job: Json, asked: Json, options: Any) -> Any:
    kind, _, number = job["input"]["device"].partition(":")
    if kind != "cuda":
        raise ValueError(f"the model is for the device {kind}, and this toolchain computes on NVIDIA GPUs only")
    wanted = PROVIDERS[asked.get("provider", "cuda")]
    given = {"device_id": number or "0"}
    cuda = (PROVIDERS["cuda"], {**given, "use_tf32": str(int(asked.get("tf32", True)))})
    providers = [cuda] if wanted == PROVIDERS["cuda"] else [(wanted, given), cuda]
    if wanted not in ort.get_available_providers():
        raise FallbackError(f"asked for {wanted}, and this build of ONNX Runtime has {ort.get_available_providers()}")
    ort.preload_dlls()  # CUDA and cuDNN of the environment's own wheels, which the loader does not find
    session = ort.InferenceSession(str(Path(job["input"]["path"], "model.onnx")), options, providers=providers)
    if wanted not in (used := session.get_providers()):
        raise FallbackError(
            f"asked for {wanted}, and ONNX Runtime fell back to {', '.join(used)}: the GPU, its driver or the "
            "provider's libraries are missing; the log names them"
        )
    session.disable_fallback()  # else it would go on on the CPU after an error of the GPU
    return session


def _make_options(job: Json) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(job["threads"])
    return options
