"""Text of a winner's manifest in Markdown: its names and notes are by whoever made the model, and may be anything."""

from __future__ import annotations

from hone_runtime.text import clean_line
from kedro_hone.report.rendering import escape_code, escape_markdown


def format_text(value: object) -> str:
    """Return a value as plain text in one line, without mark-up and links; also for a cell of a table."""
    return escape_markdown(clean_line(str(value)))


def format_code(value: object) -> str:
    """Return a value between back-ticks, which nothing in it can end; also for a cell of a table."""
    return f"`{escape_code(clean_line(str(value)))}`"
