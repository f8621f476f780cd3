"""Inputs and outputs in the terms of the Open Inference Protocol, version 2.

Source: https://github.com/kserve/open-inference-protocol, "Tensor Data Types".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, Literal, get_args

import numpy as np

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.base import Value

Datatype = Literal[
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BF16",
    "BYTES",
]

_NAMES: Final[Mapping[str, Datatype]] = MappingProxyType(
    {
        "bool": "BOOL",
        "uint8": "UINT8",
        "uint16": "UINT16",
        "uint32": "UINT32",
        "uint64": "UINT64",
        "int8": "INT8",
        "int16": "INT16",
        "int32": "INT32",
        "int64": "INT64",
        "float16": "FP16",
        "float32": "FP32",
        "float64": "FP64",
        "bfloat16": "BF16",
    }
)
DYNAMIC: Final = -1
"""The size of a dynamic dimension in the protocol."""


class Tensor(Value):
    """One input or output, as the protocol's metadata describe it.

    Attributes:
        shape: The sizes; ``DYNAMIC`` for a dynamic dimension.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]


def describe_tensors(specs: Iterable[TensorSpec]) -> tuple[Tensor, ...]:
    """Return the inputs or the outputs of a model in the protocol's terms.

    Raises:
        HoneError: ``serving-unsupported``: the protocol has no such type.
    """
    return tuple(
        Tensor(
            name=spec.name,
            datatype=find_datatype(spec),
            shape=tuple(size if isinstance(size, int) else DYNAMIC for size in spec.shape),
        )
        for spec in specs
    )


def find_datatype(spec: TensorSpec) -> Datatype:
    """Return the protocol's name of a tensor's type; text is ``BYTES``.

    Raises:
        HoneError: ``serving-unsupported``: the protocol has no such type.
    """
    if found := _NAMES.get(spec.dtype):
        return found
    with suppress(TypeError):  # NumPy has no such type
        if np.dtype(spec.dtype).kind in "UOS":
            return "BYTES"
    raise HoneError(
        "serving-unsupported",
        f"The tensor {spec.name!r} cannot be sent to a server.",
        why=f"Its type is {spec.dtype}, and the Open Inference Protocol has {', '.join(get_args(Datatype))}.",
        hint="Call the winner in your own process by kedro_hone.load.",
    )
