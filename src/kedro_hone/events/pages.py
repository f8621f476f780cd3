"""The web page: the queue, the runs with their logs and reports, the models, the rules, and a form.

Everything is rendered here; nothing on the page is a script. Who may see it has the token, or comes through a reverse
proxy that asks for a login of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from kedro_hone.core.text import clean_text
from kedro_hone.core.values.regular import read_regular
from kedro_hone.events import control
from kedro_hone.events.job import Job
from kedro_hone.events.journal import log
from kedro_hone.events.service import Service
from kedro_hone.report.result_file import read_result

_COOKIE: Final = "hone"
_SESSION_SECONDS: Final = 12 * 3600
_LONGEST_SECRET: Final = 4096
_LOG_BYTES: Final = 64 << 10
"""Of the end of a run's log on its page."""
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_REPORT_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
_HEADERS: Final = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}

Handler = Callable[[Request], Awaitable[Response]]


def _clean(value: object) -> object:
    return clean_text(value) if isinstance(value, str) else value


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=select_autoescape(("html.j2",)),
    undefined=StrictUndefined,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["time"] = _format_time


def list_routes(hosts: Sequence[str]) -> list[BaseRoute]:
    """Return the routes of the page, which are there under some names of hosts only; under any where there is none."""
    routes: list[BaseRoute] = [
        Route("/", _guard(_show_queue), methods=["GET"]),
        Route("/login", _show_login, methods=["GET"]),
        Route("/login", _log_in, methods=["POST"]),
        Route("/page.css", _show_style, methods=["GET"]),
        Route("/submit", _guard(_submit), methods=["POST"]),
        Route("/view/{number}", _guard(_show_job), methods=["GET"]),
        Route("/view/{number}/report", _guard(_show_report), methods=["GET"]),
        Route("/view/{number}/cancel", _guard(_cancel), methods=["POST"]),
        Route("/view/{number}/again", _guard(_repeat), methods=["POST"]),
        Route("/view/{number}/approve", _guard(_approve), methods=["POST"]),
    ]
    if not hosts:
        return routes
    return [Mount("/", routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])]


def _guard(handler: Handler) -> Handler:
    """Return a handler that only those reach who may see the page, and no form of another site."""

    @wraps(handler)
    async def handle(request: Request) -> Response:
        service: Service = request.app.state.service
        if service.settings.login == "token":
            if not service.secrets.token:
                raise HTTPException(404, "secrets.token is not set in listen.yml, which the page needs")
            if not _is_logged_in(request.cookies.get(_COOKIE, ""), service.secrets.token):
                return RedirectResponse("/login", status_code=303)
        try:
            if request.method == "POST":
                _check_origin(request)
            return await handler(request)
        except HTTPException as error:
            return _render("error.html.j2", status=error.status_code, said=str(error.detail))

    return handle


def _check_origin(request: Request) -> None:
    """Raise 403 where a form of another site was sent, by what browsers say (Fetch Metadata, W3C), or by its origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    try:
        same = urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:  # no URL
        same = False
    if not (site in {"same-origin", "none"} if site else same):
        raise HTTPException(403, "the form is of another site")


def _sign(stamp: str, token: str) -> str:
    return hmac.new(token.encode(), f"page.{stamp}".encode(), "sha256").hexdigest()


def _is_logged_in(cookie: str, token: str) -> bool:
    stamp, _, signature = cookie.partition(".")
    right = hmac.compare_digest(signature.encode(), _sign(stamp, token).encode())
    return right and stamp.isdecimal() and 0 <= time.time() - int(stamp[:12]) <= _SESSION_SECONDS


def _render(name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    text = _TEMPLATES.get_template(name).render(values)
    return HTMLResponse(text, status_code=status, headers=_HEADERS | {"content-security-policy": _POLICY})


async def _show_style(_: Request) -> Response:
    text = (Path(__file__).with_name("templates") / "page.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css", headers={"x-content-type-options": "nosniff"})


async def _show_login(_: Request) -> Response:
    return _render("login.html.j2", failed=False)


async def _log_in(request: Request) -> Response:
    service: Service = request.app.state.service
    _check_origin(request)
    given, token = (await _read_form(request)).get("token", "").strip(), service.secrets.token
    if not token or not hmac.compare_digest(given.encode(), token.encode()):
        log("login-refused", peer=request.client.host if request.client else "")
        return _render("login.html.j2", status=401, failed=True)
    response = RedirectResponse("/", status_code=303)
    stamp = str(int(time.time()))
    response.set_cookie(
        _COOKIE,
        f"{stamp}.{_sign(stamp, token)}",
        max_age=_SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure="https" in {request.url.scheme, request.headers.get("x-forwarded-proto")},
    )
    return response


async def _read_form(request: Request) -> dict[str, str]:
    body = await control.read_body(request)
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read") from error
    return {name: values[-1] for name, values in found.items()}


async def _show_queue(request: Request) -> Response:
    service: Service = request.app.state.service
    jobs = await asyncio.to_thread(service.queue.list_jobs)
    judged = await asyncio.to_thread(service.queue.list_jobs, limit=1000, judged=True)
    states = await asyncio.to_thread(service.queue.count_states)
    return _render(
        "queue.html.j2",
        jobs=jobs,
        states=states,
        models=_list_models(judged),
        rules=service.settings.rules,
        failing=dict(service.sweep.failing) if service.sweep else {},
        key=secrets.token_hex(8),
    )


def _list_models(jobs: tuple[Job, ...]) -> dict[str, Job]:
    """Return the newest job of each model, by its name, of jobs with a verdict, newest first."""
    found: dict[str, Job] = {}
    for job in jobs:
        found.setdefault(name_model(job.uri), job)
    return dict(sorted(found.items()))


def name_model(uri: str) -> str:
    """Return the URI of a model without its version."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{rest.rpartition('/')[0]}" if scheme == "models" else uri.partition("@")[0]


async def _submit(request: Request) -> Response:
    form = await _read_form(request)
    rule = form.get("rule") or None
    key = form.get("key") or secrets.token_hex(8)
    job = await control.submit(request.app.state.service, uri=form.get("uri", "").strip(), rule=rule, key=key[:64])
    return RedirectResponse(f"/view/{job.id}", status_code=303)


async def _show_job(request: Request) -> Response:
    service: Service = request.app.state.service
    job = await control.find_job(request)
    folder = service.runner.find_folder(job.id)
    result = await asyncio.to_thread(read_result, folder / "result.json")
    text = await asyncio.to_thread(_read_end, folder / "log")
    has_report = bool(result.folder) and Path(result.folder, "report.html").is_file()
    return _render("job.html.j2", job=job, log=text, has_report=has_report, awaits=result.awaits)


def _read_end(path: Path) -> str:
    """Return the last part of a log; empty where there is none."""
    try:
        with path.open("rb") as file:
            cut = max(0, path.stat().st_size - _LOG_BYTES)
            file.seek(cut)
            text = file.read().decode(errors="replace")
            # A part of a secret would not be known as one: the first line is left out, or the beginning of a long one.
            return (text.partition("\n")[2] or text[_LONGEST_SECRET:]) if cut else text
    except OSError:
        return ""


async def _show_report(request: Request) -> Response:
    service: Service = request.app.state.service
    job = await control.find_job(request)
    result = read_result(service.runner.find_folder(job.id) / "result.json")
    try:
        page = await asyncio.to_thread(read_regular, Path(result.folder, "report.html"))
    except (OSError, ValueError) as error:
        raise HTTPException(404, f"run {job.id} has no report") from error
    return Response(page, media_type="text/html", headers=_HEADERS | {"content-security-policy": _REPORT_POLICY})


async def _cancel(request: Request) -> Response:
    await control.cancel(request)
    return _go_to(request)


async def _repeat(request: Request) -> Response:
    await control.repeat(request)
    return _go_to(request)


async def _approve(request: Request) -> Response:
    job = await control.approve(request)
    return RedirectResponse(f"/view/{job.id}", status_code=303)


def _go_to(request: Request) -> Response:
    return RedirectResponse(f"/view/{request.path_params['number']}", status_code=303)
