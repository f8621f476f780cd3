"""Webhooks: a delivery is checked and read, and acknowledged once its jobs are on the disk."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hone_runtime.contract.tags import APPROVED
from kedro_hone.events.body import read_body
from kedro_hone.events.deliveries import (
    ForgedError,
    UnreadableError,
    check_hub,
    check_mlflow,
    read_hub,
    read_mlflow,
)
from kedro_hone.events.event import Event, Kind
from kedro_hone.events.log import log
from kedro_hone.events.service import Service


async def take_mlflow(request: Request) -> Response:
    """Process a delivery of MLflow."""

    def read(body: bytes, secret: str) -> tuple[Event, ...]:
        delivery = check_mlflow(request.headers, body, secret=secret, now=time.time())
        return read_mlflow(body, delivery=delivery)

    return await _take(request, "mlflow", read)


async def take_hub(request: Request) -> Response:
    """Process a delivery of the Hugging Face Hub."""

    def read(body: bytes, secret: str) -> tuple[Event, ...]:
        check_hub(request.headers, secret=secret)
        return read_hub(body, delivery=secrets.token_hex(16))

    return await _take(request, "huggingface", read)


async def _take(request: Request, source: str, read: Callable[[bytes, str], tuple[Event, ...]]) -> Response:
    service: Service = request.app.state.service
    secret: str = getattr(service.secrets, source)
    if not secret:
        raise HTTPException(404, f"secrets.{source} is not set in listen.yml")
    body = await read_body(request)
    try:
        events = read(body, secret)
    except (ForgedError, UnreadableError) as error:
        forged = isinstance(error, ForgedError)
        service.counts[source, "forged" if forged else "unreadable"] += 1
        peer = request.client.host if request.client else ""
        await service.call(log, "delivery-refused", level=logging.WARNING, source=source, reason=str(error), peer=peer)
        raise HTTPException(401 if forged else 400, str(error)) from error
    wanted, new = await service.call(_accept, service, source, events)
    service.counts[source, "accepted" if new else "known" if wanted else "unwanted"] += 1
    if new:
        service.runner.wake()
    return JSONResponse({"jobs": new}, status_code=202)


def _accept(service: Service, source: str, events: tuple[Event, ...]) -> tuple[int, int]:
    """Put the requests of events into the queue; return how many there are, and how many are new."""
    wanted = new = 0
    for event in events:
        requests = service.choose(event)
        wanted += len(requests)
        if added := service.queue.accept(requests, delivery=event.delivery) if requests else 0:
            new += added
            log("delivery-accepted", source=source, uri=event.uri, kind=str(event.kind), key=event.key)
        elif not requests and event.kind is Kind.TAG_SET and event.key == APPROVED:  # a person waits for it
            reason = f"its value is {event.value[:20]!r}, and 'true' approves"
            log("approval-refused", level=logging.WARNING, source=source, uri=event.uri, reason=reason)
    return wanted, new
