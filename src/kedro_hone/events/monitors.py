"""Endpoints for monitors, without a token and without names: the service's health, and Prometheus' text format."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from kedro_hone.events.service import Service

_READY_SECONDS: Final = 5.0
"""How long a write may take."""


async def is_alive(_: Request) -> Response:
    """Respond, which shows that the process works."""
    return JSONResponse({"status": "ok"})


async def is_ready(request: Request) -> Response:
    """Return whether deliveries can be accepted; 503 if not. A failing registry is only counted: it may recover."""
    service: Service = request.app.state.service
    dead = service.list_dead()
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await service.call(service.queue.check)
    except TimeoutError:  # the disk does not respond, or the log is a pipe without a reader
        dead.append("hone-queue")
    if dead:
        return JSONResponse({"status": "failed", "threads": dead}, status_code=503)
    return JSONResponse({"status": "ok", "failing_registries": len(service.sweep.failing) if service.sweep else 0})


async def count(request: Request) -> Response:
    """Return the numbers in the text format (https://prometheus.io/docs/instrumenting/exposition_formats/)."""
    service: Service = request.app.state.service
    queue, failing = service.queue, len(service.sweep.failing) if service.sweep else 0
    states = [({"state": state}, number) for state, number in (await service.call(queue.count_states)).items()]
    verdicts = [({"verdict": name}, number) for name, number in (await service.call(queue.count_verdicts)).items()]
    deliveries = [({"source": one, "outcome": other}, n) for (one, other), n in sorted(service.counts.items())]
    families = (
        _format("hone_jobs", "Jobs in each state.", states),
        _format("hone_verdicts", "Jobs with each verdict.", verdicts),
        _format("hone_deliveries_total", "Deliveries since the start.", deliveries, kind="counter"),
        _format("hone_failing_registries", "Registries that the last sweep could not read.", [({}, failing)]),
        _format(
            "hone_longest_wait_seconds",
            "Seconds since the oldest waiting job was created.",
            [({}, await service.call(queue.find_longest_wait))],
        ),
    )
    return PlainTextResponse("".join(families), media_type="text/plain; version=0.0.4")


def _format(name: str, text: str, values: Iterable[tuple[Mapping[str, str], float]], *, kind: str = "gauge") -> str:
    """Return a metric with its value for each set of labels; JSON escapes a label's value as the format requires."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in values:
        pairs = ",".join(f"{label}={json.dumps(of, ensure_ascii=False)}" for label, of in labels.items())
        lines.append(f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}")
    return "\n".join(lines) + "\n"
