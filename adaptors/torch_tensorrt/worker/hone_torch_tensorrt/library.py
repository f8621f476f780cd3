"""Torch-TensorRT on this machine; an error names the missing part."""

from __future__ import annotations

import importlib
from typing import Any

import torch

DEVICE = "cuda:0"


def require_gpu() -> None:
    """Refuse a machine without a GPU that PyTorch can use.

    Raises:
        ValueError: There is no GPU, or PyTorch is built without CUDA.
    """
    if not torch.cuda.is_available():
        why = "and PyTorch finds none here" if torch.version.cuda else f"and PyTorch {torch.__version__} has no CUDA"
        raise ValueError(f"needs an NVIDIA GPU, {why}")


def torch_tensorrt() -> Any:
    """Return the module; its import registers the operators that run engines.

    Raises:
        ValueError: The module, or TensorRT's libraries, cannot be imported.
    """
    try:
        return importlib.import_module("torch_tensorrt")
    except Exception as error:
        raise ValueError(f"Torch-TensorRT cannot be imported: {str(error).strip()[:300]}") from error
