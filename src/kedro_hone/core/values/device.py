"""Devices: where a model computes."""

from __future__ import annotations

import re
from typing import Any, Final, Self

from pydantic import Field, model_serializer, model_validator

from kedro_hone.core.values.base import Value


class Device(Value):
    """One device of a machine, such as ``cpu`` or ``cuda:0``; in JSON, that text.

    Attributes:
        kind: ``cpu``, ``cuda``, ``rocm`` …
        index: Which one of its kind, from 0. All cores together are one device: the index of ``cpu`` is always 0.
    """

    kind: str = Field(default="cpu", pattern=r"^[a-z]+$")
    index: int = Field(default=0, ge=0)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the device that a text names (ValueError if none): ``kind:index``, or ``kind`` for its first one."""
        return cls.model_validate(text)

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"([a-z]+)(?::(\d{1,4}))?", value)
        if found is None:
            raise ValueError(f"{value!r} is no device: write cpu, or a kind and an index such as cuda:0")
        return {"kind": found[1], "index": int(found[2] or 0)}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "cpu" and self.index:
            raise ValueError("the cores of a machine are one device: write cpu, without an index")
        return self

    @model_serializer
    def _write(self) -> str:
        return str(self)


CPU: Final = Device()
"""All cores of the machine."""
