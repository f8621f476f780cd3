"""Requests of REST: JSON, followed by the binary data of tensors if a header states the length of the JSON."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.tensors import Array, Sent, encode_bytes, encode_values, read_shape

JSON_LENGTH: Final = "inference-header-content-length"
_WINDOWS: Final = {"gzip": 31, "deflate": 15}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An output that a client requested.

    Attributes:
        binary: Whether it is returned as bytes; None: as the request says for all outputs.
    """

    name: str
    binary: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request of inference, of any protocol.

    Attributes:
        id: The client's name of the request; empty if absent.
        outputs: The requested outputs; empty for all.
        binary: Whether outputs are returned as bytes, where the client did not choose for each.
    """

    id: str
    inputs: tuple[Sent, ...]
    outputs: tuple[Wanted, ...] = ()
    binary: bool = False


def decompress(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Return the content of a compressed body.

    Raises:
        RequestError: It cannot be read, or is larger than ``limit`` bytes.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding not in _WINDOWS:
        raise RequestError(f"the content encoding {encoding!r:.40} is not known", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    reader = zlib.decompressobj(_WINDOWS[encoding])
    try:
        found = reader.decompress(body, limit)
    except zlib.error as error:
        raise RequestError(f"the request is not {encoding}: {error}") from error
    if reader.unconsumed_tail:
        raise explain_size(limit)
    if not reader.eof or reader.unused_data:
        raise RequestError(f"the request is not one whole {encoding} stream")
    return found


def explain_size(limit: int) -> RequestError:
    """Return the error for a request with more bytes than the server accepts."""
    return RequestError(f"the request is larger than {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def read_request(body: bytes, json_length: str | None) -> Request:
    """Return the request in a body.

    Args:
        body: The whole body.
        json_length: The header with the length of the JSON before the binary data; None if there is none.

    Raises:
        RequestError: It is not a request of the protocol.
    """
    length = _read_length(json_length, len(body))
    try:
        found = orjson.loads(body[:length])
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise RequestError(f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError("the request is not a JSON object")
    rest = memoryview(body)[length:]
    inputs = list[Sent]()
    for given in _read_list(found, "inputs"):
        sent, rest = _read_input(given, rest)
        inputs.append(sent)
    if len(rest):
        raise RequestError(f"{len(rest)} bytes follow the data of the last input")
    name = found.get("id", "")
    if not isinstance(name, str):
        raise RequestError("the request's id is not a text")
    outputs = _read_list(found, "outputs") if found.get("outputs") is not None else []
    binary = _read_parameters(found, "the request").get("binary_data_output", False)
    if not isinstance(binary, bool):
        raise RequestError("binary_data_output is neither true nor false")
    return Request(id=name, inputs=tuple(inputs), outputs=tuple(map(_read_output, outputs)), binary=binary)


def _read_length(json_length: str | None, size: int) -> int:
    if json_length is None:
        return size
    if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 12):
        raise RequestError(f"the header {JSON_LENGTH} is not a number of bytes")
    if not 0 < int(json_length) <= size:
        raise RequestError(f"the header {JSON_LENGTH} is {int(json_length)}, and the request has {size} bytes")
    return int(json_length)


def _read_list(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    given = found.get(name)
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise RequestError(f"the request's {name} are not a list of tensors")
    return given


def _read_parameters(found: Mapping[str, Any], of: str) -> Mapping[str, Any]:
    given = found.get("parameters")
    if given is not None and not isinstance(given, dict):
        raise RequestError(f"the parameters of {of} are not an object")
    return given or {}


def _read_name(given: Mapping[str, Any], kind: str) -> str:
    name = given.get("name")
    if not isinstance(name, str):
        raise RequestError(f"an {kind} has no name")
    return name


def _read_input(given: Mapping[str, Any], rest: memoryview) -> tuple[Sent, memoryview]:
    """Return an input, and the binary data after its own."""
    name, datatype = _read_name(given, "input"), given.get("datatype")
    if not isinstance(datatype, str):
        raise RequestError(f"the input {name} has no datatype")
    shape, size = read_shape(name, given.get("shape")), _read_parameters(given, name).get("binary_data_size")
    data = given.get("data")
    if (data is None) == (size is None):
        raise RequestError(f"the input {name} has either data or the parameter binary_data_size")
    if size is None:
        if not isinstance(data, list):
            raise RequestError(f"the data of {name} is not a list")
        return Sent(name=name, datatype=datatype, shape=shape, content=data), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise RequestError(f"the binary_data_size of {name} is {size!r:.40}, and {len(rest)} bytes follow")
    return Sent(name=name, datatype=datatype, shape=shape, content=rest[:size]), rest[size:]


def _read_output(given: Mapping[str, Any]) -> Wanted:
    name = _read_name(given, "output")
    binary = _read_parameters(given, name).get("binary_data")
    if not isinstance(binary, bool | None):
        raise RequestError(f"the parameter binary_data of {name} is neither true nor false")
    return Wanted(name=name, binary=binary)


def write_answer(
    request: Request, head: Mapping[str, str], results: Mapping[str, tuple[str, Array]]
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON if binary data follows.

    Args:
        request: The request that it is for.
        head: The model's name and version.
        results: Of each output in the answer its datatype and its array, in order.

    Raises:
        RequestError: JSON cannot express an output.
    """
    choices = {one.name: one.binary for one in request.outputs}
    described, tail = list[dict[str, Any]](), list[bytes]()
    for name, (datatype, array) in results.items():
        chosen = choices.get(name)
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if request.binary if chosen is None else chosen:
            tail.append(encode_bytes(array))
            tensor["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            tensor["data"] = encode_values(name, datatype, array)
        described.append(tensor)
    text = orjson.dumps({**head, **({"id": request.id} if request.id else {}), "outputs": described})
    return (b"".join([text, *tail]), len(text)) if tail else (text, None)
