"""Requests and answers as KServe's values, read and written where its own functions are too lenient or too slow."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import orjson
from kserve import InferInput, InferOutput, InferRequest, InferResponse
from kserve.constants.constants import INFERENCE_CONTENT_LENGTH_HEADER
from kserve.protocol.infer_type import RequestedOutput
from kserve.protocol.rest.v2_datamodels import InferenceRequest, RequestInput, RequestOutput
from pydantic import StrictInt, ValidationError

from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.tensors import TEXT, Array

JSON_LENGTH: Final[str] = INFERENCE_CONTENT_LENGTH_HEADER
MOST_TENSORS: Final = 1024
"""The most inputs, outputs or parameters of a request."""
MOST_AXES: Final = 32
"""The most sizes of a tensor's shape."""
SIZE: Final = "content-length"
"""The header with the size of a request, which gRPC lacks."""


class _Input(RequestInput):  # type: ignore[misc]  # KServe has no types
    """KServe's model, which has no place for an input whose data follows the JSON."""

    shape: list[StrictInt]
    data: list[Any] | None = None


class _Body(InferenceRequest):  # type: ignore[misc]
    inputs: list[_Input]


class _Output(InferOutput):  # type: ignore[misc]
    """KServe's, which takes ten times as long to make numbers of an array."""

    def set_data_from_numpy(self, output_tensor: Array, binary_data: bool = True) -> None:  # noqa: FBT001, FBT002
        if binary_data or self.datatype == TEXT:
            super().set_data_from_numpy(output_tensor, binary_data)
        else:
            self.data = output_tensor.ravel().tolist()


def read_request(body: bytes, json_length: str | None, *, model: str) -> InferRequest:
    """Return the request in a body: JSON, and the binary data of tensors if a header states the length of the JSON.

    KServe's ``InferRequest.from_bytes`` turns binary data into lists of Python's numbers, checks no length, and raises
    any exception for what is no request.

    Raises:
        RequestError: It is not a request of the protocol.
    """
    length = _read_length(json_length, len(body))
    rest = memoryview(body)[length:]
    try:
        document = orjson.loads(memoryview(body)[:length])
        _check_counts(document)
        found = _Body.model_validate(document)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the request is not JSON: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise RequestError(f"the request does not follow the protocol: {place}: {first['msg']}") from error
    raw = list[memoryview | None]()
    for one in found.inputs:
        size = (one.parameters or {}).get("binary_data_size")
        if (one.data is None) == (size is None):
            raise RequestError(f"the input {one.name} has either data or the parameter binary_data_size")
        if one.data and isinstance(one.data[0], list) and not _is_nested(one.data, one.shape):
            raise RequestError(f"the data of {one.name} are not nested as its shape {one.shape} states")
        if size is not None and (type(size) is not int or not 0 <= size <= len(rest)):
            raise RequestError(f"the binary_data_size of {one.name} is {size!r:.40}, and {len(rest)} bytes follow")
        raw.append(None if size is None else rest[:size])
        rest = rest[size or 0 :]
    if len(rest):
        raise RequestError(f"{len(rest)} bytes follow the data of the last input")
    binary = _read_choice(found.parameters, "binary_data_output", default=False)
    return InferRequest(
        model,
        [InferInput(one.name, one.shape, one.datatype, one.data, one.parameters) for one in found.inputs],
        request_id=found.id,
        raw_inputs=raw,
        parameters=found.parameters,
        request_outputs=[_read_output(one, binary=binary) for one in found.outputs or ()],
    )


def _check_counts(document: Any) -> None:
    """Raise a ``RequestError`` for a request of many parts: pydantic makes errors of each, far larger than the part."""
    if not isinstance(document, dict):
        return
    parts = [document, *(one for side in ("inputs", "outputs") for one in _list(document.get(side)))]
    counts = [len(_list(document.get(side))) for side in ("inputs", "outputs")]
    counts += [len(one["parameters"]) for one in parts if isinstance(one, dict) and _is_sized(one.get("parameters"))]
    if max(counts) > MOST_TENSORS:
        raise RequestError(f"the request has more than {MOST_TENSORS} inputs, outputs or parameters")
    if any(isinstance(one, dict) and len(_list(one.get("shape"))) > MOST_AXES for one in parts):
        raise RequestError(f"a shape of the request has more than {MOST_AXES} sizes")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_sized(value: Any) -> bool:
    return isinstance(value, dict | list)


def _is_nested(data: Any, shape: list[int]) -> bool:
    """Return whether nested lists have the sizes of a shape; KServe flattens them without a look."""
    if not shape:
        return not isinstance(data, list)
    return isinstance(data, list) and len(data) == shape[0] and all(_is_nested(one, shape[1:]) for one in data)


def _read_length(json_length: str | None, size: int) -> int:
    if json_length is None:
        return size
    if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 12):
        raise RequestError(f"the header {JSON_LENGTH} is not a number of bytes")
    if not 0 < int(json_length) <= size:
        raise RequestError(f"the header {JSON_LENGTH} is {int(json_length)}, and the request has {size} bytes")
    return int(json_length)


def _read_output(given: RequestOutput, *, binary: bool) -> RequestedOutput:
    """Return a requested output with a choice of its own: KServe ignores the request's where outputs are named."""
    return RequestedOutput(given.name, {"binary_data": _read_choice(given.parameters, "binary_data", default=binary)})


def _read_choice(parameters: dict[str, Any] | None, name: str, *, default: bool) -> bool:
    found = (parameters or {}).get(name, default)
    if not isinstance(found, bool):
        raise RequestError(f"the parameter {name} is neither true nor false")
    return found


def make_response(request: InferRequest, *, version: str, results: dict[str, tuple[str, Array]]) -> InferResponse:
    """Return the answer to a request.

    Args:
        request: The request.
        version: The model's version.
        results: Of each output in the answer its datatype and its array, in order.

    Raises:
        RequestError: JSON cannot express an output.
    """
    choices = {one.name: one.binary_data for one in request.request_outputs or ()}
    outputs = list[InferOutput]()
    for name, (datatype, array) in results.items():
        binary = request.use_binary_outputs if request.from_grpc else choices.get(name, request.use_binary_outputs)
        if not (request.from_grpc or binary) and array.dtype.kind == "f" and not np.isfinite(array).all():
            # KServe would write null.
            raise RequestError(f"{name} has infinite values or NaN, which JSON lacks: request it as binary data")
        content = array.astype(object) if array.dtype.kind == "U" else array
        outputs.append(_Output(name, list(array.shape), datatype, data=content))
        if request.from_grpc:  # for arrays, its ``to_grpc`` raises an exception
            outputs[-1].set_data_from_numpy(content, binary_data=binary)
    return InferResponse(
        request.id,
        request.model_name,
        outputs,
        model_version=version,
        use_binary_outputs=request.use_binary_outputs,
        requested_outputs=request.request_outputs,
    )
