"""What people ask of the queue, by the page or by the interface for programs: to run, to cancel, to approve."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from kedro_hone.core.contract.registries import read_registries
from kedro_hone.events.event import INTERPOLATION
from kedro_hone.events.groups import is_process
from kedro_hone.events.job import Job, State
from kedro_hone.events.job import Request as JobRequest
from kedro_hone.events.journal import log
from kedro_hone.events.rules import Rule
from kedro_hone.events.service import Service, make_approval, make_request
from kedro_hone.report.result_file import read_result

LARGEST_BODY: Final = 1 << 17
"""Bytes of a delivery: ten times what any registry sends. As many may be read at once as there are connections."""
_BODY_SECONDS: Final = 10.0
_DIGITS: Final = 18
"""Of a run's number, which SQLite keeps in 64 bits."""


async def read_body(request: Request) -> bytes:
    """Return the body; 413 where it is too large, whatever its length is said to be; 408 where it comes too slowly."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise HTTPException(413, "the body is too large")
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not come within {_BODY_SECONDS:.0f} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the body is not complete") from error
    return bytes(body)


async def submit(service: Service, *, uri: object, rule: object, key: str) -> Job:
    """Put a run into the queue that somebody asked for, and return its job; 422 where it cannot be one.

    Args:
        service: The service.
        uri: The version, as a recipe names it.
        rule: The name of the rule by which it runs; None for the project's own recipe.
        key: The same for requests of which one run is enough.
    """
    if not isinstance(uri, str) or not 0 < len(uri) <= 1000 or not uri.isprintable() or not _is_known(uri):
        raise HTTPException(422, "the uri names no version, such as models:/digits/1")
    own = Rule(name="by hand", models="*", device=next(iter(service.settings.devices)))
    named = {one.name: one for one in service.settings.rules}
    chosen = own if rule is None else named.get(str(rule))
    if chosen is None:
        raise HTTPException(422, f"there is no rule {str(rule)[:100]!r}")
    recipe = service.recipes.get(chosen.name, "")
    wanted: JobRequest = make_request(uri, chosen, hardware=service.hardware, recipe=recipe, version=key, asked=True)
    wanted = wanted.model_copy(update={"key": f"asked:{key}:{wanted.key}"})
    return await _accept(service, wanted)


def _is_known(uri: str) -> bool:
    """Whether some registry serves the URI. A path is one of the service's machine, and not the caller's: none."""
    try:
        scheme = urlsplit(uri).scheme
    except ValueError:
        return False
    return scheme in read_registries() and bool(scheme) and INTERPOLATION not in uri


async def find_job(request: Request) -> Job:
    """Return the job that the path names; 404 where there is none."""
    number: str = request.path_params["number"]
    service: Service = request.app.state.service
    known = number.isascii() and number.isdecimal() and len(number) <= _DIGITS
    job = await asyncio.to_thread(service.queue.find, int(number)) if known else None
    if job is None:
        raise HTTPException(404, f"there is no run {number[:_DIGITS]}")
    return job


async def cancel(request: Request) -> None:
    """Cancel the job that the path names; 409 where it has ended."""
    job = await find_job(request)
    if not await asyncio.to_thread(request.app.state.service.queue.cancel, job.id, reason="Somebody cancelled it."):
        raise HTTPException(409, f"run {job.id} has ended: {job.state}")
    log("job-cancelled", job=job.id, uri=job.uri)


async def repeat(request: Request) -> None:
    """Queue the job that the path names once more; 409 where it has not ended."""
    job, service = await find_job(request), request.app.state.service
    if job.state is not State.RUNNING and is_process(job.process):
        raise HTTPException(409, f"run {job.id} is still ending")
    if not await asyncio.to_thread(service.queue.start_again, job.id):
        raise HTTPException(409, f"run {job.id} has not ended: {job.state}")
    service.runner.wake()


async def approve(request: Request) -> Job:
    """Queue the approval of the winner that the job published, and return its job; 409 where it published none."""
    job = await find_job(request)
    service: Service = request.app.state.service
    if job.state is not State.DONE or not job.published:
        raise HTTPException(409, f"run {job.id} has published nothing")
    result = await asyncio.to_thread(read_result, service.runner.find_folder(job.id) / "result.json")
    wanted = make_approval(job.published, asked=secrets.token_hex(8), alias=result.awaits)
    log("approved", job=job.id, uri=job.published)
    return await _accept(service, wanted)


async def _accept(service: Service, wanted: JobRequest) -> Job:
    await asyncio.wrap_future(service.intake.accept((wanted,)))
    service.runner.wake()
    job = await asyncio.to_thread(service.queue.find_key, wanted.key)
    if job is None:
        raise HTTPException(503, "the job is gone")
    return job
