"""Requests of the Open Inference Protocol by REST with binary tensors, and their answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kedro_hone.serving.tensors import Datatype, Tensor

Array = NDArray[Any]

_TYPES: Final[Mapping[Datatype, str]] = MappingProxyType(
    {
        "BOOL": "?",
        "UINT8": "<u1",
        "UINT16": "<u2",
        "UINT32": "<u4",
        "UINT64": "<u8",
        "INT8": "<i1",
        "INT16": "<i2",
        "INT32": "<i4",
        "INT64": "<i8",
        "FP16": "<f2",
        "FP32": "<f4",
        "FP64": "<f8",
        "BF16": "<f4",  # numpy lacks it
    }
)


def encode_request(
    model: str, arrays: Mapping[str, Array], *, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> bytes:
    """Return a whole HTTP request, with its head; the outputs are requested as binary tensors, too.

    Args:
        model: The model's name on the server.
        arrays: The inputs by name.
        inputs: The model's inputs.
        outputs: The model's outputs.
    """
    contents = {one.name: _encode(arrays[one.name], one.datatype) for one in inputs}
    header = {
        "id": "hone",  # answers of equal outputs are equal
        "inputs": [
            {
                "name": one.name,
                "datatype": one.datatype,
                "shape": arrays[one.name].shape,
                "parameters": {"binary_data_size": len(contents[one.name])},
            }
            for one in inputs
        ],
        "outputs": [{"name": one.name, "parameters": {"binary_data": True}} for one in outputs],
    }
    text = json.dumps(header).encode()
    body = text + b"".join(contents.values())
    lines = (
        f"POST /v2/models/{model}/infer HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(text)}",
        f"Content-Length: {len(body)}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


def decode_answer(body: bytes, length: int) -> dict[str, Array]:
    """Return the outputs of an answer by name.

    Args:
        body: The body of the answer.
        length: The length of its JSON part; after it are the binary tensors.

    Raises:
        ValueError, KeyError: It is no answer of the protocol.
    """
    header, place, found = json.loads(body[:length]), length, dict[str, Array]()
    for one in header["outputs"]:
        if (size := one.get("parameters", {}).get("binary_data_size")) is None:
            values = np.asarray(one["data"])
            array = values.astype(str) if one["datatype"] == "BYTES" else values.astype(_TYPES[one["datatype"]])
        else:
            array = _decode(body[place : place + size], one["datatype"])
            place += size
        found[one["name"]] = array.reshape(one["shape"])
    if place != len(body):
        raise ValueError(f"the answer has {len(body)} bytes, and its outputs have {place}")
    return found


def _encode(array: Array, datatype: Datatype) -> bytes:
    if datatype == "BYTES":
        return b"".join(_frame(str(one).encode()) for one in array.ravel().tolist())
    if datatype == "BF16":
        return _round(np.ascontiguousarray(array, "<f4")).tobytes()
    return np.ascontiguousarray(array, _TYPES[datatype]).tobytes()


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "little") + content


def _round(array: Array) -> Array:
    """Return the upper halves of numbers of 32 bits, rounded to the nearest even."""
    bits = array.view("<u4")
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (np.where(np.isnan(array), bits | 0x400000, rounded) >> 16).astype("<u2")


def _decode(content: bytes, datatype: Datatype) -> Array:
    if datatype == "BF16":
        return (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
    if datatype != "BYTES":
        return np.frombuffer(content, _TYPES[datatype])
    return np.array([one.decode() for one in _split(content)], np.str_)


def _split(content: bytes) -> Iterable[bytes]:
    place = 0
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "little")
        yield content[place + 4 : place + 4 + size]
        place += 4 + size
