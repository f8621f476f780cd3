"""The service's HTTP interface: webhooks of registries, runs that are asked for, and what monitors it."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kedro_hone.core.contract.tags import APPROVED
from kedro_hone.core.errors import HoneError
from kedro_hone.core.text import clean_text
from kedro_hone.events import control
from kedro_hone.events.deliveries import (
    ForgedError,
    UnreadableError,
    check_hub,
    check_mlflow,
    read_hub,
    read_mlflow,
)
from kedro_hone.events.event import Event, Kind
from kedro_hone.events.job import Job
from kedro_hone.events.journal import log
from kedro_hone.events.metrics import format_metrics
from kedro_hone.events.pages import list_routes
from kedro_hone.events.service import Service

_READY_SECONDS: Final = 5.0
"""How long writing nothing may take."""


def make_application(service: Service) -> Starlette:
    """Return the ASGI application of a service that is running."""
    routes = [
        Route("/webhooks/mlflow", _take_mlflow, methods=["POST"]),
        Route("/webhooks/huggingface", _take_hub, methods=["POST"]),
        Route("/runs", _list, methods=["GET"]),
        Route("/runs", _submit, methods=["POST"]),
        Route("/runs/{number}", _show, methods=["GET"]),
        Route("/runs/{number}", _cancel, methods=["DELETE"]),
        Route("/runs/{number}/again", _repeat, methods=["POST"]),
        Route("/runs/{number}/approve", _approve, methods=["POST"]),
        Route("/health", _live, methods=["GET"]),
        Route("/ready", _ready, methods=["GET"]),
        Route("/metrics", _count, methods=["GET"]),
        *list_routes(service.settings.hosts),
    ]
    handlers: dict[Any, Any] = {HTTPException: _explain, HoneError: _fail}
    application = Starlette(routes=routes, exception_handlers=handlers)
    application.state.service = service
    return application


async def _take_mlflow(request: Request) -> Response:
    service: Service = request.app.state.service
    secret = service.secrets.mlflow
    return await _take(
        request,
        source="mlflow",
        secret=secret,
        read=lambda body: read_mlflow(
            body, delivery=check_mlflow(request.headers, body, secret=secret, now=time.time())
        ),
    )


async def _take_hub(request: Request) -> Response:
    service: Service = request.app.state.service
    secret = service.secrets.huggingface

    def read(body: bytes) -> tuple[Event, ...]:
        check_hub(request.headers, secret=secret)
        return read_hub(body, delivery=secrets.token_hex(16))

    return await _take(request, source="huggingface", secret=secret, read=read)


async def _take(request: Request, *, source: str, secret: str, read: Callable[[bytes], tuple[Event, ...]]) -> Response:
    """Check and read a delivery, and respond once the jobs that it leads to are written."""
    service: Service = request.app.state.service
    if not secret:
        raise HTTPException(404, f"secrets.{source} is not set in listen.yml")
    body = await control.read_body(request)
    try:
        events = read(body)
    except ForgedError as error:
        service.counts.add(source, "forged")
        service.intake.refuse("delivery-refused", source=source, reason=str(error), peer=_find_peer(request))
        raise HTTPException(401, str(error)) from error
    except UnreadableError as error:
        service.counts.add(source, "unreadable")
        service.intake.refuse("delivery-refused", source=source, reason=str(error), peer=_find_peer(request))
        raise HTTPException(400, str(error)) from error
    new, wanted = 0, False
    for event in events:
        requests = service.choose(event)
        wanted |= bool(requests)
        if requests:
            note = {"source": source, "uri": event.uri, "kind": str(event.kind), "key": event.key}
            accepted = service.intake.accept(requests, delivery=event.delivery, note=note)
            new += await asyncio.wrap_future(accepted)
        elif event.kind is Kind.TAG_SET and event.key == APPROVED:  # a person waits for it
            reason = f"its value is {event.value[:20]!r}, and 'true' approves"
            service.intake.refuse("approval-refused", source=source, uri=event.uri, reason=reason)
    service.counts.add(source, "accepted" if new else "known" if wanted else "unwanted")
    if new:
        service.runner.wake()
    return JSONResponse({"jobs": new}, status_code=202)


def check_token(request: Request) -> None:
    """Raise 401 where the request has no bearer token, or another one; 404 where there is none at all."""
    wanted = request.app.state.service.secrets.token
    if not wanted:
        raise HTTPException(404, "secrets.token is not set in listen.yml")
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), wanted.encode()):
        raise HTTPException(401, "the token is missing, or another one", headers={"www-authenticate": "Bearer"})


async def _submit(request: Request) -> Response:
    """Start a run because somebody asked: as often as they ask, unless they send the same ``idempotency-key``."""
    check_token(request)
    try:
        asked = json.loads(await control.read_body(request))
        uri, name = asked["uri"], asked.get("rule")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HTTPException(422, 'the body is not like {"uri": "models:/digits/1", "rule": "digits"}') from error
    key = request.headers.get("idempotency-key") or secrets.token_hex(16)
    job = await control.submit(request.app.state.service, uri=uri, rule=name, key=key)
    return JSONResponse(_describe(job), status_code=202, headers={"location": f"/runs/{job.id}"})


async def _list(request: Request) -> Response:
    check_token(request)
    jobs = await asyncio.to_thread(request.app.state.service.queue.list_jobs)
    return JSONResponse([_describe(job) for job in jobs])


async def _show(request: Request) -> Response:
    check_token(request)
    return JSONResponse(_describe(await control.find_job(request)))


async def _cancel(request: Request) -> Response:
    check_token(request)
    await control.cancel(request)
    return JSONResponse(_describe(await control.find_job(request)))


async def _repeat(request: Request) -> Response:
    check_token(request)
    await control.repeat(request)
    return JSONResponse(_describe(await control.find_job(request)), status_code=202)


async def _approve(request: Request) -> Response:
    check_token(request)
    job = await control.approve(request)
    return JSONResponse(_describe(job), status_code=202, headers={"location": f"/runs/{job.id}"})


async def _live(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _ready(request: Request) -> Response:
    """Whether deliveries can be accepted; 503 where not. Registries that fail are told; they may come back."""
    service: Service = request.app.state.service
    await asyncio.to_thread(service.queue.count_states)
    if dead := service.list_dead() or await _find_stuck(service):
        return JSONResponse({"status": "failed", "threads": dead}, status_code=503)
    return JSONResponse({"status": "ok", "failing_registries": len(service.sweep.failing) if service.sweep else 0})


async def _find_stuck(service: Service) -> list[str]:
    """Return the intake's thread where it writes nothing in time, as where its log is a pipe that nobody reads."""
    # Where writing failed it is tried again, since no delivery may come while this is not ready.
    delivery = f"ready:{secrets.token_hex(8)}" if service.intake.failing else ""
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await asyncio.wrap_future(service.intake.accept((), delivery=delivery))
    except TimeoutError:
        return [thread.name for thread in service.intake.threads]
    return []


async def _count(request: Request) -> Response:
    service: Service = request.app.state.service
    states = await asyncio.to_thread(service.queue.count_states)
    verdicts = await asyncio.to_thread(service.queue.count_verdicts)
    failing = len(service.sweep.failing) if service.sweep else 0
    oldest = await asyncio.to_thread(service.queue.find_longest_wait)
    text = format_metrics(states, service.counts.read(), verdicts=verdicts, failing=failing, longest_wait=oldest)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _describe(job: Job) -> dict[str, Any]:
    said = job.model_dump(mode="json", exclude={"process", "task"})
    return {name: clean_text(value) if isinstance(value, str) else value for name, value in said.items()}


def _find_peer(request: Request) -> str:
    return request.client.host if request.client else ""


async def _explain(_: Request, error: HTTPException) -> Response:
    said = {"error": clean_text(str(error.detail))}
    return JSONResponse(said, status_code=error.status_code, headers=error.headers)


async def _fail(_: Request, error: HoneError) -> Response:
    """Respond 503, so that the sender tries again."""
    log(error.slug, level=logging.ERROR, reason=error.why)
    return JSONResponse({"error": error.what, "slug": error.slug}, status_code=503, headers={"retry-after": "30"})
