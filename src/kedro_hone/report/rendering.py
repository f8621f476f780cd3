"""The reports as text: the page, the comment for a pull request, and the description and tags of a version."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from hone_runtime.contract.proof import EVIDENCE_FOLDER, REPORTS
from hone_runtime.contract.registry import Publication
from hone_runtime.text import clean_text
from kedro_hone.report import wording
from kedro_hone.report.breaks import break_after_marks
from kedro_hone.report.calls import tabulate_calls
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.operators import describe_operators, tabulate_operators
from kedro_hone.report.orders import list_orders
from kedro_hone.report.records import group_reasons
from kedro_hone.report.returns import describe_price, list_returns
from kedro_hone.report.risk import describe_risk, list_changed_rows, list_changes
from kedro_hone.report.scales import scale_quality
from kedro_hone.report.slices import tabulate_slices
from kedro_hone.report.tunings import describe_tuning, format_point, list_tunings
from kedro_hone.report.view import View

LIMIT: Final = 60_000  # GitHub accepts 65,536 characters; the rest is for text that a bot adds

_CLOSING: Final = "\n</details>\n"
_REST: Final = "\n… and {:,} more in `report.html`.\n"


class JobRemarks(NamedTuple):
    """Additions of a CI job to its comment.

    Attributes:
        base: The base branch's result, if there is one.
        last: The result of the last push, if there is one.
        last_commit: Its commit; empty if unknown.
        note: Why nothing was published although it was requested, in our own Markdown.
        log_url: The URL of the job's log.
    """

    base: View | None = None
    last: View | None = None
    last_commit: str = ""
    note: str = ""
    log_url: str = ""


_NO_REMARKS: Final = JobRemarks()


def render_page(evidence: Evidence, publication: Publication | None = None) -> str:
    """Render the report as one HTML page that needs no other file, makes no request and runs no script."""
    return _render("page.html.j2", View(evidence, publication))


def render_markdown(
    evidence: Evidence, publication: Publication | None = None, *, job: JobRemarks = _NO_REMARKS
) -> str:
    """Render the verdict, a small table and folded details in GitHub's Markdown; foreign text is escaped.

    If it would take more than ``LIMIT`` bytes of UTF-8, whole rows are left out and counted, the least interesting
    first. ``publication`` is that of the winner, once it was published.
    """
    text, *parts, foot = _render("comment.md.j2", View(evidence, publication), job=job).split("\f")
    room = LIMIT - len(foot.encode())
    if len(text.encode()) > room:  # text from a model may have any length
        return "".join(_select_rows(text.splitlines(keepends=True), room - 8)) + "\n…\n" + foot
    for head, rows in zip(parts[::2], parts[1::2], strict=True):
        text += _fold(head, rows.splitlines(keepends=True), room - len(text.encode()))
    return text + foot


def describe_winner(evidence: Evidence) -> str:
    """Render a registry's description of a winner, in Markdown.

    The registry adds how to load it, since it has the URI and the aliases.
    """
    report, machine = f"{EVIDENCE_FOLDER}/{REPORTS[0]}", list_readable_tags(evidence)["Measured on"]
    return _render("description.md.j2", View(evidence), report=report, machine=machine)


def list_readable_tags(evidence: Evidence) -> dict[str, str]:
    """Return four readable tags; their capital letters sort them before those for programs."""
    view, found, threads = View(evidence), evidence.speedup, evidence.hardware.threads
    ratio, rest = wording.format_pair(found.ratio) if found else ("", "")
    qualities = [
        f"{wording.format_metric_name(one.metric)} {wording.format_metric(one.metric, one.candidate)}, "
        f"within {wording.format_drop(one.metric, max(one.drop.high, 0.0))}"
        for one in evidence.subject_quality
    ]
    tags = {
        "Speed": f"{ratio} as fast ({rest}) at {wording.format_shape(found.shape)}" if found else "",
        "Quality": "; ".join(qualities),
        "Made by": view.winner,
        "Measured on": view.machine + (f", {threads} thread{'s' if threads != 1 else ''}" if threads else ""),
    }
    return {name: clean_text(text)[:500] for name, text in tags.items() if text}


def _render(template: str, view: View, **more: object) -> str:
    return TEMPLATES.get_template(template).render(
        view=view, evidence=view.evidence, publication=view.publication, **more
    )


def _fold(head: str, rows: list[str], room: int) -> str:
    """Return a folded part with as many rows as fit into ``room`` bytes, or an empty text if not even its head fits."""
    left = room - len((head + _CLOSING + _REST.format(0)).encode()) - len("00,000")
    if left < 0:
        return ""
    kept = _select_rows(rows, left)
    rest = _REST.format(len(rows) - len(kept)) if len(kept) < len(rows) else ""
    return head + "".join(kept) + rest + _CLOSING


def _select_rows(rows: list[str], room: int) -> list[str]:
    ends = accumulate(len(row.encode()) for row in rows)
    return [row for row, end in zip(rows, ends, strict=True) if end <= room]


def escape_markdown(text: str) -> str:
    """Escape foreign text, so that it has no mark-up, entities, images, links, mentions or references.

    A zero-width space breaks GitHub's automatic links: ``https://``, ``ftp://``, ``www.``, ``@user`` and ``#1``.
    """
    flat = re.sub(r"([\\`*_{}\[\]<>#|!~$&])", r"\\\1", " ".join(text.split()))
    return re.sub(r"@(?=\w)|(?<=#)(?=\d)|:(?=/)|(?i:www)(?=\.)", lambda match: match[0] + "\u200b", flat)


def escape_code(text: str) -> str:
    """Make text safe between the back-ticks of Markdown, in a table too."""
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def join_numbers(sentence: str) -> str:
    """Keep a number on the same line as its word."""
    return re.sub(r" (?=\d+\b(?!\.))|(?<=\d) (?=points)", "\u00a0", sentence)


def _clean(value: object) -> object:
    """Return the value of a template's expression without control characters; ``Markup`` stays ``Markup``."""
    if not isinstance(value, str) or value == "\f":  # our own separator of the parts of the comment
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
"""The templates of all reports, with filters that format numbers and names."""

_FUNCTIONS: Final = (
    *(describe_price, describe_risk, group_reasons, list_changed_rows, list_changes, list_orders, list_returns),
    *(tabulate_calls, tabulate_operators, tabulate_slices, describe_operators),
    *(list_tunings, describe_tuning, format_point),
)
TEMPLATES.globals.update({"wording": wording} | {one.__name__: one for one in _FUNCTIONS})
TEMPLATES.filters.update(
    {one.__name__: one for one in (escape_markdown, escape_code, break_after_marks, join_numbers, scale_quality)}
)
TEMPLATES.filters.update({name: one for name, one in vars(wording).items() if name.startswith("format_")})
