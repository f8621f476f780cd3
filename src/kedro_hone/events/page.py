"""Pages: templates over the values of the interface for programs. Pages contain no scripts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from hone_runtime.text import clean_text

_FOLDER: Final = Path(__file__).with_name("templates")
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
REPORT_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The policy of a report, which contains texts of a registry."""


def _clean(value: object) -> object:
    return clean_text(value) if isinstance(value, str) else value


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(_FOLDER),
    autoescape=select_autoescape(("html.j2",)),
    undefined=StrictUndefined,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["time"] = _format_time


def is_page(request: Request) -> bool:
    """Return whether a page is requested, as by a browser; programs get JSON."""
    return "text/html" in request.headers.get("accept", "")


def render(name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the page from a template and values."""
    return make_page(_TEMPLATES.get_template(f"{name}.html.j2").render(values), status=status)


def make_page(content: str | bytes, *, policy: str = _POLICY, status: int = 200) -> HTMLResponse:
    """Return a page with a content security policy."""
    headers = {
        "cache-control": "no-store",
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    return HTMLResponse(content, status_code=status, headers=headers)


async def show_style(_: Request) -> Response:
    """Return the style sheet of all pages."""
    text = (_FOLDER / "page.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css", headers={"x-content-type-options": "nosniff"})
