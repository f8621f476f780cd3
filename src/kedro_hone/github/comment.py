"""The text of the comment, the check and the job's summary: conclusion, comparison, details."""

from __future__ import annotations

from typing import Final

from kedro_hone.core.errors import ExitCode
from kedro_hone.github.figures import Figures, hide_figures, render_comparison, say_change

LIMIT: Final = 65_536
"""GitHub refuses a comment, and the summary of a check, with more characters."""

_DETAILS: Final = "\n<details>"  # at the beginning of a line it is ours: what is foreign has no line of its own


def compose_body(
    report: str,
    now: Figures,
    *,
    base: Figures | None = None,
    last: Figures | None = None,
    note: str = "",
    run_url: str = "",
) -> str:
    """Return the report with what changed, before its details.

    Args:
        report: The run's report in GitHub's Markdown.
        now: The run's figures.
        base: Those of the base branch, if there are any.
        last: Those of the last push, if there are any.
        note: Why nothing was published though it was asked for; in our own Markdown.
        run_url: Where the job's log and the whole report are.
    """
    head, details, rest = report.partition(_DETAILS)
    parts = [head.rstrip() + "\n"]
    if note:
        parts.append(f"**Not published**: {note}\n")
    if base is not None:
        parts.append(render_comparison(now, base, title="base branch, *before*"))
    if last is not None:
        parts.append(say_change(now, last))
    if details:
        parts.append(details + rest.rstrip() + "\n")
    if run_url:
        parts.append(f"<sub>[The job's log, and the whole report]({run_url})</sub>\n")
    return "\n".join(parts)


def explain_absence(code: int, run_url: str) -> str:
    """Return what is said where the run ended without a verdict."""
    why = {ExitCode.INPUT: "the recipe or an input is wrong", ExitCode.BUG: "a bug of kedro-hone"}
    said = why.get(code, "the log says why")  # type: ignore[call-overload]  # an IntEnum's member is an int
    return f"## ❗ No verdict\n\n`kedro run` ended with exit code {code}: {said}. [The job's log]({run_url})\n"


def seal_comment(body: str, *, marker: str, figures: Figures | None) -> str:
    """Return the comment's whole text: the marker first, the figures for the next run last, and never too long.

    ``figures`` is None where there is no verdict.
    """
    tail = "" if figures is None else f"\n{hide_figures(figures)}\n"
    room = LIMIT - len(marker) - len(tail) - 8
    return f"{marker}\n{body if len(body) <= room else body[:room] + '…'}{tail}"
