"""The reports as text: a page in one HTML file, and a comment for a pull request."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.text import clean_text
from kedro_hone.report import scales, view, wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.plot import draw_chart

LIMIT: Final = 60_000  # GitHub takes 65,536 characters; the rest is room for what a bot puts around

_CLOSING: Final = "\n</details>\n"
_REST: Final = "\n… and {:,} more in `report.html`.\n"


def render_page(evidence: Evidence, publication: Publication | None = None) -> str:
    """Render the report as one HTML page that needs no other file, makes no request and runs no script."""
    return TEMPLATES.get_template("page.html.j2").render(evidence=evidence, publication=publication)


def render_markdown(evidence: Evidence, publication: Publication | None = None) -> str:
    """Render the verdict, a small table and folded details in GitHub's Markdown; what is foreign is escaped.

    Where it would take more than ``LIMIT`` bytes of UTF-8, whole rows are left out, the least interesting first, and it
    says how many. ``publication`` is where the winner went, once it was published.
    """
    whole = TEMPLATES.get_template("comment.md.j2").render(evidence=evidence, publication=publication)
    text, *parts, foot = whole.split("\f")
    room = LIMIT - len(foot.encode())
    if len(text.encode()) > room:  # what comes from a model may be of any length
        return "".join(_keep_rows(text.splitlines(keepends=True), room - 8)) + "\n…\n" + foot
    for head, rows in zip(parts[::2], parts[1::2], strict=True):
        text += _fold(head, rows.splitlines(keepends=True), room - len(text.encode()))
    return text + foot


def _fold(head: str, rows: list[str], room: int) -> str:
    """Return a folded part with as many rows as fit into so many bytes, or nothing where not even its head does."""
    left = room - len((head + _CLOSING + _REST.format(0)).encode()) - len("00,000")
    if left < 0:
        return ""
    kept = _keep_rows(rows, left)
    rest = _REST.format(len(rows) - len(kept)) if len(kept) < len(rows) else ""
    return head + "".join(kept) + rest + _CLOSING


def _keep_rows(rows: list[str], room: int) -> list[str]:
    ends = accumulate(len(row.encode()) for row in rows)
    return [row for row, end in zip(rows, ends, strict=True) if end <= room]


def escape_markdown(text: str) -> str:
    """Make foreign text show as it is: no mark-up, no entity, no image, no link, no mention and no reference works.

    A zero-width space breaks what GitHub links by itself: ``https://``, ``ftp://``, ``www.``, ``@user`` and ``#1``.
    """
    flat = re.sub(r"([\\`*_{}\[\]<>#|!~$&])", r"\\\1", " ".join(text.split()))
    return re.sub(r"@(?=\w)|(?<=#)(?=\d)|:(?=/)|(?i:www)(?=\.)", lambda match: match[0] + "\u200b", flat)


def escape_code(text: str) -> str:
    """Make text safe between the back-ticks of Markdown, in a table too."""
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def break_after_marks(name: str) -> Markup:
    """Let a long identifier break after its dots and underscores."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[._])", name) if part)


def keep_together(sentence: str) -> str:
    """Keep a number on the line of the word that it belongs to."""
    return re.sub(r" (?=\d+\b(?!\.))|(?<=\d) (?=points)", "\u00a0", sentence)


def _clean(value: object) -> object:
    """Return what an expression of a template shows, without control characters; ``Markup`` stays ``Markup``."""
    if not isinstance(value, str) or value == "\f":  # which separates the parts of the comment, and is ours
        return value
    return type(value)(clean_text(value))


TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=select_autoescape(("html.j2", "svg.j2")),  # Markdown escapes in its own way
    undefined=StrictUndefined,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""The templates of the page and of the comment: they ask for what they show, by the names that it has here."""

TEMPLATES.globals.update(draw_chart=draw_chart, scales=scales, view=view, wording=wording)
TEMPLATES.filters.update(
    {one.__name__: one for one in (escape_markdown, escape_code, break_after_marks, keep_together)}
)
TEMPLATES.filters.update({name: one for name, one in vars(wording).items() if name.startswith(("format_", "name_"))})
