"""KServe's service of the Open Inference Protocol, version 2, over gRPC."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from kserve import InferRequest
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from kserve.protocol.grpc.servicer import InferenceServicer

from kedro_hone.serving.server.data_plane import Server, explain_error
from kedro_hone.serving.server.failures import CODES, RequestError
from kedro_hone.serving.server.messages import MOST_AXES, MOST_TENSORS, SIZE


def make_grpc_server(server: Server, *, address: str) -> grpc.aio.Server:
    """Return a server of gRPC that is not started.

    KServe's ``GRPCServer`` listens on all addresses. Compressed requests are refused: the library limits their
    compressed size only.

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
    add_GRPCInferenceServiceServicer_to_server(Service(server), made)
    if not made.add_insecure_port(address):
        raise RuntimeError(f"gRPC cannot listen on {address}")
    return made


class Service(InferenceServicer):  # type: ignore[misc]  # KServe has no types
    """KServe's methods, with versions, limits, and codes of gRPC for every exception.

    KServe's own interceptor has no code for limits, and logs the mistakes of clients with tracebacks.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server, None)
        self._server = server

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802 - names of the protocol
        """Return whether requests for a model are welcome."""
        return await self._answer(super().ModelReady, request, context)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the metadata of a model, of which KServe leaves out the version."""
        found = await self._answer(super().ModelMetadata, request, context)
        found.versions.append(self._server.models[request.name].configuration.version)
        return found

    async def RepositoryModelLoad(self, _: Any, context: Any) -> Any:  # noqa: N802
        """Refuse the request, which KServe would fulfil for anyone."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this server loads no other models")

    async def RepositoryModelUnload(self, _: Any, context: Any) -> Any:  # noqa: N802
        """Refuse the request, which KServe would fulfil for anyone."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this server unloads no models")

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the outputs of a model, by the steps of KServe's method, which leaves out the size of the request."""
        since, code = time.monotonic(), grpc.StatusCode.CANCELLED
        try:
            try:
                model = self._server.find_model(request.model_name, request.model_version)
                _check_counts(request)
                with model.admit():
                    self.validate_grpc_request(request)
                    size = {SIZE: str(request.ByteSize())}
                    read = InferRequest.from_grpc(request)
                    response, _ = await self._server.infer(request.model_name, read, size)
                    found = response.to_grpc()
            except Exception as error:  # noqa: BLE001 - shown to the client, and logged
                shown = explain_error(error, name=request.id)
                code = find_code(shown)
                await context.abort(code, shown.message)
            code = grpc.StatusCode.OK
            return found
        finally:
            self._server.count(request.model_name, protocol="grpc", code=code.name, since=since)

    async def _answer(self, method: Callable[[Any, Any], Awaitable[Any]], request: Any, context: Any) -> Any:
        try:
            self._server.find_model(request.name, request.version)
            return await method(request, context)
        except Exception as error:  # noqa: BLE001 - shown to the client, and logged
            shown = explain_error(error, name="")
            await context.abort(find_code(shown), shown.message)


def _check_counts(request: Any) -> None:
    """Refuse a request whose tensors or sizes are so many that others would wait while they are read.

    Raises:
        RequestError: There are too many.
    """
    counts = (len(request.inputs), len(request.outputs), len(request.raw_input_contents), len(request.parameters))
    if max(counts) > MOST_TENSORS:
        raise RequestError(f"the request has more than {MOST_TENSORS} tensors")
    if odd := next((one for one in request.inputs if len(one.shape) > MOST_AXES), None):
        raise RequestError(f"the shape of {odd.name:.100} has more than {MOST_AXES} sizes")


def find_code(error: RequestError) -> grpc.StatusCode:
    """Return the code of gRPC for an error."""
    return grpc.StatusCode[CODES.get(error.status, "UNKNOWN")]
