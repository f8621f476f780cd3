"""The Open Inference Protocol, version 2, over gRPC, by the service and the messages of KServe's SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

from kedro_hone.serving.server.failures import CODES, RequestError
from kedro_hone.serving.server.requests import Request, Wanted
from kedro_hone.serving.server.server_state import Server, hide_error
from kedro_hone.serving.server.tensors import HALF, TEXT, Array, Sent, encode_bytes, encode_text, read_shape

_T = TypeVar("_T")
_CONTENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BOOL": "bool_contents",
        "INT64": "int64_contents",
        "UINT64": "uint64_contents",
        "FP32": "fp32_contents",
        "FP64": "fp64_contents",
        TEXT: "bytes_contents",
        **{f"INT{bits}": "int_contents" for bits in (8, 16, 32)},
        **{f"UINT{bits}": "uint_contents" for bits in (8, 16, 32)},
    }
)
"""The field of a message with the elements of each type."""


def make_grpc_server(server: Server, *, address: str) -> grpc.aio.Server:
    """Return a server of gRPC that is not started.

    Compressed requests are refused: the library limits their compressed size only.

    Args:
        server: The models.
        address: The host and the port.

    Raises:
        RuntimeError: It cannot listen there.
    """
    options = [
        ("grpc.max_receive_message_length", server.limits.request_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 1),
        ("grpc.compression_enabled_algorithms_bitset", 1),
    ]
    made = grpc.aio.server(options=options)
    services.add_GRPCInferenceServiceServicer_to_server(Service(server), made)
    if not made.add_insecure_port(address):
        raise RuntimeError(f"gRPC cannot listen on {address}")
    return made


class Service(services.GRPCInferenceServiceServicer):  # type: ignore[misc]  # generated code has no types
    """The methods of the protocol; those of model repositories do not exist here."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def ServerLive(self, _: Any, __: Any) -> Any:  # noqa: N802 - names of the protocol
        """Return that the server is live."""
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, _: Any, __: Any) -> Any:  # noqa: N802
        """Return whether new requests are welcome."""
        return messages.ServerReadyResponse(ready=self._server.ready)

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return whether requests for a model are welcome."""
        await _answer(context, lambda: self._server.find_model(request.name, request.version))
        return messages.ModelReadyResponse(ready=self._server.ready)

    async def ServerMetadata(self, _: Any, __: Any) -> Any:  # noqa: N802
        """Return the metadata of the server."""
        return messages.ServerMetadataResponse(**self._server.describe())

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the metadata of a model."""
        model = await _answer(context, lambda: self._server.find_model(request.name, request.version))
        return messages.ModelMetadataResponse(**self._server.describe_model(model))

    async def RepositoryModelLoad(self, _: Any, context: Any) -> Any:  # noqa: N802
        """Refuse the request."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the server loads no other models")

    async def RepositoryModelUnload(self, _: Any, context: Any) -> Any:  # noqa: N802
        """Refuse the request."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the server unloads no models")

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the outputs of a model."""
        since, code = time.monotonic(), grpc.StatusCode.CANCELLED
        try:
            try:
                found = await self._infer(request)
            except Exception as error:  # noqa: BLE001 - shown to the client, and logged
                shown = hide_error(error, name=request.id)
                code = find_code(shown)
                await context.abort(code, shown.message)
            code = grpc.StatusCode.OK
            return found
        finally:
            self._server.count(request.model_name, protocol="grpc", code=code.name, since=since)

    async def _infer(self, message: Any) -> Any:
        model = self._server.find_model(message.model_name, message.model_version)
        with model.admit():
            results = await model.infer(read_message(message), size=message.ByteSize())
        return write_message(
            {"id": message.id, "model_name": model.name, "model_version": model.configuration.version},
            results,
            raw=bool(message.raw_input_contents),
        )


async def _answer(context: Any, find: Callable[[], _T]) -> _T:
    try:
        return find()
    except RequestError as error:
        await context.abort(find_code(error), error.message)
        raise


def find_code(error: RequestError) -> grpc.StatusCode:
    """Return the code of gRPC for an error."""
    return grpc.StatusCode[CODES.get(error.status, "UNKNOWN")]


def read_message(message: Any) -> Request:
    """Return the request in a message.

    Raises:
        RequestError: It contradicts itself.
    """
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise RequestError(f"there are {len(message.inputs)} inputs and {len(raw)} raw_input_contents")
    inputs = tuple(
        Sent(
            name=tensor.name,
            datatype=tensor.datatype,
            shape=read_shape(tensor.name, tuple(tensor.shape)),
            content=_read_content(tensor, raw[at] if raw else None),
        )
        for at, tensor in enumerate(message.inputs)
    )
    outputs = tuple(Wanted(name=one.name) for one in message.outputs)
    return Request(id=message.id, inputs=inputs, outputs=outputs)


def _read_content(tensor: Any, raw: bytes | None) -> bytes | tuple[Any, ...]:
    filled = [field.name for field, _ in tensor.contents.ListFields()]
    if raw is not None:
        if filled:
            raise RequestError(f"{tensor.name} has both contents and raw_input_contents")
        return raw
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        raise RequestError(f"{tensor.name} is {tensor.datatype:.20}, which is sent as raw_input_contents only")
    if odd := [name for name in filled if name != field]:
        raise RequestError(f"{tensor.name} is {tensor.datatype}, and has {odd[0]} instead of {field}")
    return tuple(getattr(tensor.contents, field))


def write_message(head: Mapping[str, str], results: Mapping[str, tuple[str, Array]], *, raw: bool) -> Any:
    """Return the message with a result.

    Args:
        head: The id, and the model's name and version.
        results: Of each output its datatype and its array, in order.
        raw: Whether the outputs are bytes; always so if one has a type that is sent in no other way.

    Raises:
        RequestError: An output's type does not exist in the protocol.
    """
    raw = raw or any(datatype in HALF for datatype, _ in results.values())
    answer = messages.ModelInferResponse(**head)
    for name, (datatype, array) in results.items():
        tensor = answer.outputs.add(name=name, datatype=datatype, shape=array.shape)
        if raw:
            answer.raw_output_contents.append(encode_bytes(array))
        elif datatype not in _CONTENTS:
            raise RequestError(f"{name} has the unknown type {datatype}", HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            flat = [encode_text(one) for one in array.flat] if datatype == TEXT else array.ravel().tolist()
            getattr(tensor.contents, _CONTENTS[datatype]).extend(flat)
    return answer
