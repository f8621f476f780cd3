"""The formats that toolchains share, and the files that must exist in a directory of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kedro_hone.core.values.base import Format

FORMATS: Final[Mapping[Format, tuple[str, ...]]] = MappingProxyType(
    {
        "onnx": ("model.onnx",),
        "pytorch": ("model.pt2",),
        "pytorch-module": ("module.json",),
        "torchscript": ("model.ts",),
        "aot-inductor": ("*.pt2",),
        "openvino-ir": ("model.xml", "model.bin"),
        "iree-vmfb": ("model.vmfb",),
        "tensorflow": ("saved_model.pb",),
    }
)
"""Format to glob patterns; each must match at least one non-empty file."""


def find_missing(folder: Path, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns that match no non-empty file below a directory."""
    return tuple(
        pattern
        for pattern in patterns
        if not any(path.is_file() and path.stat().st_size for path in folder.glob(pattern))
    )
