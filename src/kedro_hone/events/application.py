"""The service's HTTP interface: webhooks of registries, runs, a page of them, and endpoints for monitors."""

from __future__ import annotations

import logging
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hone_runtime.errors import HoneError
from hone_runtime.text import clean_text
from kedro_hone.events import access, monitors, runs, webhooks
from kedro_hone.events.log import log
from kedro_hone.events.page import is_page, render, show_style
from kedro_hone.events.service import Service


def make_application(service: Service) -> Starlette:
    """Return the ASGI application of a service that is running."""
    routes = [
        Route("/webhooks/mlflow", webhooks.take_mlflow, methods=["POST"]),
        Route("/webhooks/huggingface", webhooks.take_hub, methods=["POST"]),
        Route("/", runs.list_runs, methods=["GET"]),
        Route("/runs", runs.list_runs, methods=["GET"]),
        Route("/runs", runs.submit, methods=["POST"]),
        Route("/runs/{number}", runs.show_run, methods=["GET"]),
        Route("/runs/{number}", runs.cancel, methods=["DELETE"]),
        Route("/runs/{number}/report", runs.show_report, methods=["GET"]),
        Route("/runs/{number}/cancel", runs.cancel, methods=["POST"]),
        Route("/runs/{number}/again", runs.repeat, methods=["POST"]),
        Route("/runs/{number}/approve", runs.approve, methods=["POST"]),
        Route("/login", access.show_login, methods=["GET"]),
        Route("/login", access.log_in, methods=["POST"]),
        Route("/page.css", show_style, methods=["GET"]),
        Route("/health", monitors.is_alive, methods=["GET"]),
        Route("/ready", monitors.is_ready, methods=["GET"]),
        Route("/metrics", monitors.count, methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: _explain, HoneError: _fail}
    application = Starlette(routes=routes, exception_handlers=handlers)
    application.state.service = service
    return application


async def _explain(request: Request, error: HTTPException) -> Response:
    text = clean_text(str(error.detail))
    if is_page(request):
        response: Response = render("error", status=error.status_code, said=text)
    else:
        response = JSONResponse({"error": text}, status_code=error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _fail(request: Request, error: HoneError) -> Response:
    """Respond 503, so that the sender tries again."""
    service: Service = request.app.state.service
    await service.call(log, error.slug, level=logging.ERROR, reason=error.why)
    if is_page(request):
        return render("error", status=503, said=error.what)
    return JSONResponse({"error": error.what, "slug": error.slug}, status_code=503, headers={"retry-after": "30"})
