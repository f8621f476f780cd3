"""The runs: list, show, start, cancel, repeat and approve them. Programs get JSON, and browsers a page of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hone_runtime.contract.registries import read_registries
from hone_runtime.values.regular import read_regular
from kedro_hone.events.access import admit
from kedro_hone.events.body import read_form, read_object
from kedro_hone.events.event import INTERPOLATION
from kedro_hone.events.groups import is_process
from kedro_hone.events.job import Job, JobRequest, State
from kedro_hone.events.listing import describe_job, render_queue
from kedro_hone.events.log import log
from kedro_hone.events.page import REPORT_POLICY, is_page, make_page, render
from kedro_hone.events.rules import Rule
from kedro_hone.events.service import Service, make_approval
from kedro_hone.report.result_file import RunResult, read_result

_DIGITS: Final = 18
"""The most digits of a run's number, which SQLite stores in 64 bits."""
_LOG_BYTES: Final = 64 << 10
"""The size of the end of a run's log on its page."""
_LONGEST_SECRET: Final = 4096
_LONGEST_MODEL: Final = 1000


async def list_runs(request: Request) -> Response:
    """Return the newest runs, of one model if the query names it; the page also shows models, rules and a form."""
    service = admit(request)
    model = request.query_params.get("model", "")[:_LONGEST_MODEL]
    found = await service.call(service.queue.list_jobs, model=model)
    jobs = await asyncio.to_thread(lambda: [describe_job(job, service.runner.find_folder(job.id)) for job in found])
    if not is_page(request):
        return JSONResponse(jobs)
    return render_queue(
        jobs,
        judged=await service.call(service.queue.list_jobs, limit=1000, judged=True),
        states=await service.call(service.queue.count_states),
        rules=service.settings.rules,
        failing=dict(service.sweep.failing) if service.sweep else {},
        model=model,
        key=secrets.token_hex(8),
    )


async def show_run(request: Request) -> Response:
    """Return one run; the page also shows its log."""
    service = admit(request)
    job = await _find_job(request, service)
    folder = service.runner.find_folder(job.id)
    described = await asyncio.to_thread(describe_job, job, folder)
    if not is_page(request):
        return JSONResponse(described)
    result = await _read_result(service, job)
    text = await asyncio.to_thread(_read_end, folder / "log")
    return render("job", live=True, job=described, log=text, awaits=result.awaits)


async def show_report(request: Request) -> Response:
    """Return the report of a run in a sandbox, since it may contain anything."""
    service = admit(request)
    job = await _find_job(request, service)
    result = await _read_result(service, job)
    if not result.folder:
        raise HTTPException(404, f"run {job.id} has no report")
    try:
        page = await asyncio.to_thread(read_regular, Path(result.folder, "report.html"))
    except (OSError, ValueError) as error:
        raise HTTPException(404, f"run {job.id} has no report") from error
    return make_page(page, policy=REPORT_POLICY)


async def submit(request: Request) -> Response:
    """Start a run that a person requests; the same ``idempotency-key``, or the same form, starts it once.

    Without a rule the project's own recipe is used.
    """
    service = admit(request)
    if is_page(request):
        given: Mapping[str, Any] = await read_form(request)
        uri, rule, key = given.get("uri", "").strip(), given.get("rule") or None, given.get("key")
    else:
        given = await read_object(request)
        uri, rule, key = given.get("uri"), given.get("rule"), request.headers.get("idempotency-key")
    if not isinstance(uri, str) or not 0 < len(uri) <= 1000 or not uri.isprintable() or not _is_known(uri):
        raise HTTPException(422, "the uri names no version, such as models:/digits/1")
    own = Rule(name="by hand", models="*", device=next(iter(service.settings.devices)))
    chosen = own if rule is None else {one.name: one for one in service.settings.rules}.get(str(rule))
    if chosen is None:
        raise HTTPException(422, f"there is no rule {str(rule)[:100]!r}")
    key = key or secrets.token_hex(16)
    wanted = await service.call(service.make_request, uri, chosen, asked=True)
    return await _accept(request, service, wanted.model_copy(update={"key": f"asked:{key}:{wanted.key}"}))


async def cancel(request: Request) -> Response:
    """Cancel a run; 409 if it has ended."""
    service = admit(request)
    job = await _find_job(request, service)
    if not await service.call(service.queue.cancel, job.id, reason="It was cancelled."):
        raise HTTPException(409, f"run {job.id} has ended: {job.state}")
    await service.call(log, "job-cancelled", job=job.id, uri=job.uri)
    return await _respond(request, await _find_job(request, service), status=200)


async def repeat(request: Request) -> Response:
    """Queue a run once more; 409 if it has not ended."""
    service = admit(request)
    job = await _find_job(request, service)
    if job.state is not State.RUNNING and is_process(job.process):
        raise HTTPException(409, f"run {job.id} is still ending")
    if not await service.call(service.queue.start_again, job.id):
        raise HTTPException(409, f"run {job.id} has not ended: {job.state}")
    service.runner.wake()
    return await _respond(request, await _find_job(request, service), status=202)


async def approve(request: Request) -> Response:
    """Queue the approval of the winner that a run published; 409 if it published none."""
    service = admit(request)
    job = await _find_job(request, service)
    if job.state is not State.DONE or not job.published:
        raise HTTPException(409, f"run {job.id} has published nothing")
    result = await _read_result(service, job)
    await service.call(log, "approved", job=job.id, uri=job.published)
    wanted = make_approval(job.published, asked=secrets.token_hex(8), alias=result.awaits)
    return await _accept(request, service, wanted)


async def _accept(request: Request, service: Service, wanted: JobRequest) -> Response:
    await service.call(service.queue.accept, (wanted,))
    service.runner.wake()
    job = await service.call(service.queue.find_key, wanted.key)
    if job is None:
        raise HTTPException(503, "the job is gone")
    return await _respond(request, job, status=202)


async def _respond(request: Request, job: Job, *, status: int) -> Response:
    """Return the changed run, or a redirect to its page."""
    service: Service = request.app.state.service
    place = f"/runs/{job.id}"
    if is_page(request):
        return RedirectResponse(place, status_code=303)
    described = await asyncio.to_thread(describe_job, job, service.runner.find_folder(job.id))
    return JSONResponse(described, status_code=status, headers={"location": place})


async def _find_job(request: Request, service: Service) -> Job:
    """Return the job in the path; 404 if there is none."""
    number: str = request.path_params["number"]
    known = number.isascii() and number.isdecimal() and len(number) <= _DIGITS
    job = await service.call(service.queue.find, int(number)) if known else None
    if job is None:
        raise HTTPException(404, f"there is no run {number[:_DIGITS]}")
    return job


async def _read_result(service: Service, job: Job) -> RunResult:
    return await asyncio.to_thread(read_result, service.runner.find_folder(job.id) / "result.json")


def _is_known(uri: str) -> bool:
    """Return whether a registry serves the URI. A path does not count: it is on the service's machine."""
    try:
        scheme = urlsplit(uri).scheme
    except ValueError:
        return False
    return scheme in read_registries() and bool(scheme) and INTERPOLATION not in uri


def _read_end(path: Path) -> str:
    """Return the last part of a log; empty if there is none."""
    try:
        with path.open("rb") as file:
            cut = max(0, path.stat().st_size - _LOG_BYTES)
            file.seek(cut)
            text = file.read().decode(errors="replace")
            # Part of a secret is not recognized, so the first line is left out, or the beginning of a long one.
            return (text.partition("\n")[2] or text[_LONGEST_SECRET:]) if cut else text
    except OSError:
        return ""
