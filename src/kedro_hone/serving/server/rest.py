"""The Open Inference Protocol, version 2, over HTTP, and `/metrics`.

KServe's own routes are not used: they refuse requests without a content type, close the connection after an error,
and let anyone unload a model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Received
from starlette.responses import Response
from starlette.routing import Route

from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.requests import (
    JSON_LENGTH,
    decompress,
    explain_size,
    read_request,
    write_answer,
)
from kedro_hone.serving.server.server_state import Server, hide_error

_BODY_SECONDS: Final = 60.0
"""How long a client may take to send a request."""
_LARGE: Final = 1 << 18
"""Bytes from which JSON is parsed in a thread."""
_CLIENT_GONE: Final = 499
"""The code in the metrics of a request whose client closed the connection."""

_Endpoint = Callable[[Received], Awaitable[Response]]


def make_app(server: Server) -> Starlette:
    """Return the application: the endpoints of the protocol and `/metrics`, and nothing else."""
    handlers = _Handlers(server)

    def add(path: str, endpoint: _Endpoint, method: str = "GET") -> Route:
        return Route(path, handlers.guard(endpoint), methods=[method])

    routes = [
        add("/v2", handlers.describe),
        add("/v2/health/live", handlers.live),
        add("/v2/health/ready", handlers.ready),
        add("/v2/models", handlers.list_models),
        add("/metrics", handlers.write_metrics),
    ]
    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        routes += [
            add(path, handlers.describe_model),
            add(f"{path}/ready", handlers.model_ready),
            add(f"{path}/infer", handlers.infer, "POST"),
        ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _explain_route})
    app.router.redirect_slashes = False
    return app


class _Handlers:
    """The endpoints."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def guard(self, endpoint: _Endpoint) -> _Endpoint:
        """Return an endpoint that answers every exception in the protocol's form: the connection stays open."""

        async def answer(received: Received) -> Response:
            try:
                response = await endpoint(received)
            except Exception as error:  # noqa: BLE001 - shown to the client, and logged
                response = _write_error(hide_error(error, name=received.headers.get("x-request-id", "")))
            if not self._server.ready:  # clients go to another server
                response.headers["connection"] = "close"
            return response

        return answer

    async def describe(self, _: Received) -> Response:
        return _write(self._server.describe())

    async def live(self, _: Received) -> Response:
        return _write({"live": True})

    async def ready(self, _: Received) -> Response:
        self._server.require_ready()
        return _write({"ready": True})

    async def list_models(self, _: Received) -> Response:
        return _write({"models": list(self._server.models)})

    async def describe_model(self, received: Received) -> Response:
        return _write(self._server.describe_model(self._server.find_model(**_read_path(received))))

    async def model_ready(self, received: Received) -> Response:
        model = self._server.find_model(**_read_path(received))
        self._server.require_ready()
        return _write({"name": model.name, "ready": True})

    async def write_metrics(self, _: Received) -> Response:
        return Response(self._server.metrics.write(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def infer(self, received: Received) -> Response:
        since, code = time.monotonic(), _CLIENT_GONE
        try:
            response = await self._infer(received)
            code = response.status_code
        except RequestError as error:
            code = error.status
            raise
        except ClientDisconnect:  # nobody reads this
            response = _write_error(RequestError("the request ended before it was complete"))
        except Exception:
            code = HTTPStatus.INTERNAL_SERVER_ERROR
            raise
        finally:
            name = received.path_params["model"]
            self._server.count(name, protocol="rest", code=str(int(code)), since=since)
        return response

    async def _infer(self, received: Received) -> Response:
        model = self._server.find_model(**_read_path(received))
        with model.admit():
            body = await _read_body(received, limit=self._server.limits.request_bytes)
            length = received.headers.get(JSON_LENGTH)
            if len(body) < _LARGE:
                request = read_request(body, length)
            else:
                request = await asyncio.get_running_loop().run_in_executor(None, read_request, body, length)
            try:
                results = await model.infer(request, size=len(body))
                head = {"model_name": model.name, "model_version": model.configuration.version}
                answer, json_length = write_answer(request, head, results)
            except Exception as error:
                raise hide_error(error, name=request.id or received.headers.get("x-request-id", "")) from error
        if json_length is None:
            return Response(answer, media_type="application/json")
        headers = {JSON_LENGTH: str(json_length), "content-type": "application/octet-stream"}
        return Response(answer, headers=headers)


def _read_path(received: Received) -> dict[str, str]:
    return {"name": received.path_params["model"], "wanted": received.path_params.get("version", "")}


async def _read_body(received: Received, *, limit: int) -> bytes:
    """Return the body of a request, decompressed.

    Raises:
        RequestError: It is too large, comes too slowly, or has an unknown encoding.
    """
    declared = received.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise explain_size(limit)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in received.stream():
                size += len(part)
                if size > limit:
                    raise explain_size(limit)
                parts.append(part)
    except TimeoutError as error:
        text = f"the request was not complete after {_BODY_SECONDS:.0f} s"
        raise RequestError(text, HTTPStatus.REQUEST_TIMEOUT) from error
    encoding = received.headers.get("content-encoding", "").strip().lower()
    return decompress(b"".join(parts), encoding, limit=limit)


def _write(content: dict[str, Any]) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")


def _write_error(error: RequestError) -> Response:
    content = orjson.dumps({"error": error.message.encode("utf-8", "replace").decode()})
    return Response(content, status_code=error.status, media_type="application/json")


async def _explain_route(received: Received, error: Exception) -> Response:
    """Return the answer for a path or a method that the server does not have."""
    status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND)
    return _write_error(RequestError(f"{received.method} {received.url.path!r:.200}: {status.phrase.lower()}", status))
