"""Pages: templates over the values of the interface for programs.

A page that changes has one script of ours, which fetches the page again and replaces its live parts. The policy allows
that script by its digest and no other, so that nothing that a registry, a model or a log contains can run.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from hone_runtime.text import clean_text
from kedro_hone.report.breaks import break_after_marks

_FOLDER: Final = Path(__file__).with_name("templates")
_SCRIPT: Final = (_FOLDER / "page.js").read_text(encoding="utf-8")
_DIGEST: Final = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_LIVE_POLICY: Final = f"{_POLICY}; script-src 'sha256-{_DIGEST}'; connect-src 'self'"
"""The policy of a page that refreshes itself."""
REPORT_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The policy of a report, which contains texts of a registry."""


_REVISION: Final = re.compile(r"(?<=@[0-9a-f]{12})[0-9a-f]{28}\b")
_MARKS: Final = "._/:@-"


def _clean(value: object) -> object:
    """Return the value of a template's expression without control characters; ``Markup`` stays ``Markup``."""
    return type(value)(clean_text(value)) if isinstance(value, str) else value


def _break(text: str) -> Markup:
    """Return a URI or a name that is broken after its marks only; a commit of 40 digits is shortened."""
    return break_after_marks(_REVISION.sub("…", text), _MARKS)


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
_TEMPLATES.filters |= {"time": _format_time, "breakable": _break}
_TEMPLATES.globals["script"] = Markup(_SCRIPT)  # noqa: S704 - a file of ours


def is_page(request: Request) -> bool:
    """Return whether a page is requested, as by a browser; programs get JSON."""
    return "text/html" in request.headers.get("accept", "")


def render(name: str, *, status: int = 200, live: bool = False, **values: Any) -> HTMLResponse:
    """Return the page from a template and values; one that is live refreshes itself."""
    text = _TEMPLATES.get_template(f"{name}.html.j2").render(values, live=live)
    return make_page(text, policy=_LIVE_POLICY if live else _POLICY, status=status)


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
