"""Access to the runs: programs send the token; people log in with it, or at a reverse proxy that requires a login."""

from __future__ import annotations

import hmac
import time
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kedro_hone.events.body import read_form
from kedro_hone.events.log import log
from kedro_hone.events.page import is_page, render
from kedro_hone.events.service import Service

_COOKIE: Final = "hone"
_SESSION_SECONDS: Final = 12 * 3600


def admit(request: Request) -> Service:
    """Return the service for a request that may see and change the runs.

    A page needs the cookie of a login, and a form must come from a page of the service. A program needs the token: a
    cookie is not accepted, so that no page of another site can use one.

    Raises:
        HTTPException: 303 to the login; 400 for another host, 401 or 403; 404 if no token is configured.
    """
    service: Service = request.app.state.service
    if not is_page(request):
        _check_token(request, service.secrets.token)
        return service
    _check_host(request, service)
    if service.settings.login == "token":
        if not service.secrets.token:
            raise HTTPException(404, "secrets.token is not set in listen.yml, which the page needs")
        if not _is_logged_in(request.cookies.get(_COOKIE, ""), service.secrets.token):
            raise HTTPException(303, headers={"location": "/login"})
    if request.method not in {"GET", "HEAD"}:
        _check_origin(request)
    return service


def _check_token(request: Request, token: str) -> None:
    if not token:
        raise HTTPException(404, "secrets.token is not set in listen.yml")
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise HTTPException(401, "the token is missing, or another one", headers={"www-authenticate": "Bearer"})


def _check_host(request: Request, service: Service) -> None:
    """Raise 400 if a page is requested under a name that is not in ``hosts``; without ``hosts`` any name is allowed."""
    try:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:  # not the name of a host
        name = ""
    hosts = service.settings.hosts
    if hosts and not any(fnmatchcase(name, host.lower()) for host in hosts):
        raise HTTPException(400, "the page is not served under this name: see hosts in listen.yml")


def _check_origin(request: Request) -> None:
    """Raise 403 if a form comes from another site, by what browsers send (Fetch Metadata, W3C), or by its origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    try:
        same = urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:  # not a URL
        same = False
    if not (site in {"same-origin", "none"} if site else same):
        raise HTTPException(403, "the form is of another site")


def _sign(stamp: str, token: str) -> str:
    return hmac.new(token.encode(), f"page.{stamp}".encode(), "sha256").hexdigest()


def _is_logged_in(cookie: str, token: str) -> bool:
    stamp, _, signature = cookie.partition(".")
    right = hmac.compare_digest(signature.encode(), _sign(stamp, token).encode())
    return right and stamp.isdecimal() and 0 <= time.time() - int(stamp[:12]) <= _SESSION_SECONDS


async def show_login(request: Request) -> Response:
    """Return the login page for the token."""
    _check_host(request, request.app.state.service)
    return render("login", failed=False)


async def log_in(request: Request) -> Response:
    """Set the cookie of a session if the token is right."""
    service: Service = request.app.state.service
    _check_host(request, service)
    _check_origin(request)
    given, token = (await read_form(request)).get("token", "").strip(), service.secrets.token
    if not token or not hmac.compare_digest(given.encode(), token.encode()):
        await service.call(log, "login-refused", peer=request.client.host if request.client else "")
        return render("login", status=401, failed=True)
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
