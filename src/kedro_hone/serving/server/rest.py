"""KServe's endpoints of the Open Inference Protocol, version 2, over HTTP, behind a guard, and `/metrics`.

KServe's ``ModelServer`` is not used: it reads this process's arguments when it is imported, listens on all addresses,
and has neither a limit of a request's size nor a time in which it is not ready before it stops.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from kserve.protocol.rest.v2_endpoints import register_v2_endpoints
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Received
from starlette.responses import Response

from kedro_hone.serving.server.bodies import read_body
from kedro_hone.serving.server.data_plane import Server, explain_error
from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.messages import JSON_LENGTH

_CLIENT_GONE: Final = 499
"""The code in the metrics of a request whose client closed the connection."""
_MODEL: Final = re.compile(r"(?P<path>/v2/models/(?P<name>[^/]+))(?:/versions/(?P<version>[^/]+))?(?P<call>/[a-z]+)?")
_BINARY: Final = (b"content-type", b"application/octet-stream")
_REPLACED: Final = frozenset({b"content-type", b"content-length"})

_Scope = dict[str, Any]
_Receive = Callable[[], Awaitable[dict[str, Any]]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def make_app(server: Server) -> _App:
    """Return the application: KServe's endpoints of the protocol and `/metrics`, and nothing else."""
    handlers: Any = {HTTPException: _explain_route, RequestValidationError: _explain_body}
    app = FastAPI(openapi_url=None, redirect_slashes=False, exception_handlers=handlers)
    register_v2_endpoints(app, server, None)

    async def write_metrics(_: Received) -> Response:
        return Response(server.metrics.write(), headers={"content-type": CONTENT_TYPE_LATEST})

    app.add_route("/metrics", write_metrics)
    return Guard(app, server)


class Guard:
    """Limits requests before KServe's endpoints get them, and gives every answer the protocol's form.

    KServe has no limits; no versions; lets anyone unload a model; refuses JSON without its content type; and closes
    the connection after an exception.
    """

    def __init__(self, app: _App, server: Server) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer a request."""
        received = Received(scope, receive)
        try:
            response = await self._answer(received)
        except Exception as error:  # noqa: BLE001 - shown to the client, and logged
            response = _write_error(explain_error(error, name=received.headers.get("x-request-id", "")))
        if not self._server.accepting:  # clients go to another server
            response.headers["connection"] = "close"
        await response(scope, receive, send)  # type: ignore[arg-type]

    async def _answer(self, received: Received) -> Response:
        path = received.scope["path"]
        if path.startswith("/v2/repository"):
            raise RequestError("this server loads and unloads no models", HTTPStatus.NOT_FOUND)
        found = _MODEL.fullmatch(path)
        if found is None:
            return await _call(self._app, received, path)
        name, call = found["name"], found["call"] or ""
        path = f"{found['path']}{call}"
        if call != "/infer" or received.method != "POST":
            self._server.find_model(name, found["version"])
            return await _call(self._app, received, path)
        return await self._infer(received, name=name, version=found["version"], path=path)

    async def _infer(self, received: Received, *, name: str, version: str | None, path: str) -> Response:
        since, response, code = time.monotonic(), None, _CLIENT_GONE
        try:
            with self._server.find_model(name, version).admit():
                body = await read_body(received, limit=self._server.limits.request_bytes)
                response = await _call(self._app, received, path, body)
                code = response.status_code
        except ClientDisconnect:
            response = _write_error(RequestError("the request ended before it was complete"))  # nobody reads this
        except Exception as error:  # noqa: BLE001 - shown to the client, and logged
            response = _write_error(explain_error(error, name=received.headers.get("x-request-id", "")))
            code = response.status_code
        self._server.count(name, protocol="rest", code=str(code), since=since)
        return response


async def _call(app: _App, received: Received, path: str, body: bytes = b"") -> Response:
    """Return the answer of KServe's endpoints.

    Args:
        app: The endpoints.
        received: The request.
        path: Its path without the version.
        body: Its body; KServe reads JSON that is sent as binary data, too, and then leaves it to ``Server.decode``.
    """
    response = Response()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            response.status_code = message["status"]
            response.raw_headers = message["headers"]
        else:
            response.body += message.get("body", b"")

    headers = [one for one in received.scope["headers"] if one[0] not in _REPLACED]
    await app({**received.scope, "path": path, "headers": [*headers, _BINARY]}, receive, send)
    if "content-type" not in response.headers:  # KServe removes it from answers of inference
        kind = "octet-stream" if JSON_LENGTH in response.headers else "json"
        response.headers["content-type"] = f"application/{kind}"
    response.headers["content-length"] = str(len(response.body))
    return response


def _write_error(error: RequestError) -> Response:
    content = orjson.dumps({"error": error.message.encode("utf-8", "replace").decode()})
    return Response(content, status_code=error.status, media_type="application/json")


async def _explain_route(received: Received, error: Exception) -> Response:
    """Return the answer for a path or a method that the server does not have."""
    status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND)
    return _write_error(RequestError(f"{received.method} {received.url.path!r:.200}: {status.phrase.lower()}", status))


async def _explain_body(_: Received, error: Exception) -> Response:  # noqa: ARG001 - FastAPI's
    """Return the answer for an inference without a body, which KServe answers in FastAPI's form."""
    return _write_error(RequestError("the request has no body"))
