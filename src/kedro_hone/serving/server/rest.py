"""KServe's endpoints of the Open Inference Protocol, version 2, over HTTP, and `/metrics`.

KServe's ``ModelServer`` is not used: it reads this process's arguments when it is imported, listens on all addresses,
has no limit of a request's size, lets anyone unload a model, closes the connection after an exception, and its FastAPI
takes longer than a small model. So its endpoints are called by routes of Starlette, which FastAPI is made of.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import orjson
from kserve.protocol.rest.v2_endpoints import V2Endpoints
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Received
from starlette.responses import Response
from starlette.routing import Route

from kedro_hone.serving.server.bodies import read_body
from kedro_hone.serving.server.data_plane import Server, explain_error
from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.messages import JSON_LENGTH

_CLIENT_GONE: Final = 499
"""The code in the metrics of a request whose client closed the connection."""

_Endpoint = Callable[[Received], Awaitable[Response]]


def make_app(server: Server) -> Starlette:
    """Return the application: the endpoints of the protocol and `/metrics`, and nothing else."""
    kserve = V2Endpoints(server, None)

    def add(path: str, call: Callable[..., Awaitable[Any]]) -> Route:
        async def endpoint(received: Received) -> Response:
            found = await call(*received.path_params.values())
            return Response(found.model_dump_json(exclude_none=True), media_type="application/json")

        return Route(path, _guard(server, endpoint), methods=["GET"])

    async def infer(received: Received) -> Response:
        return await _infer(server, kserve, received)

    async def write_metrics(_: Received) -> Response:
        return Response(server.metrics.write(), headers={"content-type": CONTENT_TYPE_LATEST})

    routes = [
        add("/v2", kserve.metadata),
        add("/v2/health/live", kserve.live),
        add("/v2/health/ready", kserve.ready),
        add("/v2/models", kserve.models),
        Route("/metrics", write_metrics),
    ]
    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        routes += [
            add(path, kserve.model_metadata),
            add(f"{path}/ready", kserve.model_ready),
            Route(f"{path}/infer", _guard(server, infer), methods=["POST"]),
        ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _explain_route})
    app.router.redirect_slashes = False
    return app


def _guard(server: Server, endpoint: _Endpoint) -> _Endpoint:
    """Return an endpoint without versions, which KServe refuses, and that answers every exception."""

    async def answer(received: Received) -> Response:
        try:
            version = received.path_params.pop("version", None)
            if version is not None:
                server.find_model(received.path_params["model"], version)
            response = await endpoint(received)
        except Exception as error:  # noqa: BLE001 - shown to the client, and logged
            response = _write_error(received, error)
        if not server.accepting:  # clients go to another server
            response.headers["connection"] = "close"
        return response

    return answer


async def _infer(server: Server, kserve: V2Endpoints, received: Received) -> Response:
    since, code, response = time.monotonic(), _CLIENT_GONE, Response()
    name = received.path_params["model"]
    try:
        with server.find_model(name).admit():
            body = await read_body(received, limit=server.limits.request_bytes)
            await kserve.infer(received, response, name, body)
        kind = "octet-stream" if JSON_LENGTH in response.headers else "json"
        response.headers["content-type"] = f"application/{kind}"
        response.headers["content-length"] = str(len(response.body))
        code = response.status_code
    except ClientDisconnect:  # nobody reads the answer
        pass
    except Exception as error:  # noqa: BLE001 - shown to the client, and logged
        response = _write_error(received, error)
        code = response.status_code
    finally:
        server.count(name, protocol="rest", code=str(code), since=since)
    return response


def _write_error(received: Received, error: Exception) -> Response:
    shown = explain_error(error, name=received.headers.get("x-request-id", ""))
    content = orjson.dumps({"error": shown.message.encode("utf-8", "replace").decode()})
    return Response(content, status_code=shown.status, media_type="application/json")


async def _explain_route(received: Received, error: Exception) -> Response:
    """Return the answer for a path or a method that the server does not have."""
    status = HTTPStatus(error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND)
    text = f"{received.method} {received.url.path!r:.200}: {status.phrase.lower()}"
    return _write_error(received, RequestError(text, status))
