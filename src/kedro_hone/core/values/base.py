"""The base of every value: frozen, strict about unknown keys, and JSON on the disk."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

Json = Any
"""A JSON value. Pydantic checks it on the way in; mypy cannot follow its recursion through dataclass fields."""

Format = str
"""What kind of model files a directory holds, such as ``onnx`` or ``openvino-ir``; see ``FORMATS``."""

BACKENDS: tuple[Format, ...] = ("pytorch", "onnx", "tensorflow")
"""The formats that every model is converted to first."""


class Value(BaseModel):
    """Base of every value: frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
