"""The pull-request comment: the verdict and a small table, the details folded, never longer than a comment may be."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from kedro_hone.core.contract.registry import Publication
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.page import TEMPLATES

LIMIT: Final = 60_000  # GitHub takes 65,536 characters; the rest is room for what a bot puts around

_CLOSING: Final = "\n</details>\n"
_REST: Final = "\n… and {:,} more in `report.html`.\n"


def render_markdown(evidence: Evidence, publication: Publication | None = None, *, limit: int = LIMIT) -> str:
    """Render the report as a comment in GitHub's Markdown; what comes from models and toolchains is escaped.

    Where it would take more than ``limit`` bytes of UTF-8, whole rows are left out, the least interesting first, and it
    says how many. ``publication`` is where the winner went, once it was published.

    Raises:
        ValueError: The limit is below 2,000: too small for a verdict.
    """
    if limit < 2000:
        raise ValueError(f"a comment needs at least 2,000 bytes, not {limit}")
    whole = TEMPLATES.get_template("comment.md.j2").render(evidence=evidence, publication=publication)
    text, *parts, foot = whole.split("\f")
    room = limit - len(foot.encode())
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
