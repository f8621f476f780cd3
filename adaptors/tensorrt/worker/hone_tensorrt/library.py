"""The bindings of TensorRT and CUDA on this machine; an error names the missing part."""

from __future__ import annotations

import importlib
from typing import Any


def require_gpu() -> None:
    """Refuse a machine without a GPU that CUDA can use.

    Raises:
        ValueError: There is no GPU or no driver; the message has CUDA's own error.
    """
    runtime = cuda()
    error, count = runtime.cudaGetDeviceCount()
    if error != runtime.cudaError_t.cudaSuccess or not count:
        raise ValueError(f"needs an NVIDIA GPU, and CUDA finds none here ({error.name})")


def tensorrt() -> Any:
    """Return the module of TensorRT's bindings.

    Raises:
        ValueError: Their libraries are not found.
    """
    try:
        return importlib.import_module("tensorrt_bindings")
    except ImportError as error:
        raise ValueError(f"TensorRT's libraries are not on LD_LIBRARY_PATH: {error}") from error


def cuda() -> Any:
    """Return the module of CUDA's runtime."""
    return importlib.import_module("cuda.bindings.runtime")


def check(result: tuple[Any, ...]) -> Any:
    """Return the result of a call of CUDA's runtime.

    Raises:
        RuntimeError: The call failed.
    """
    error, *values = result
    if error != cuda().cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA failed: {error.name}")
    return values[0] if values else None
