"""The few figures of a verdict that two runs are compared by, and how a comment carries them to the next run."""

from __future__ import annotations

import base64
import re
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kedro_hone.core.values.decision import Verdict
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.rendering import escape_code, escape_markdown

_HIDDEN: Final = re.compile(r"<!-- kedro-hone:figures ([A-Za-z0-9_=-]{1,8000}) -->\s*\Z")  # ours is the last
_NONE: Final = "–"  # noqa: RUF001 - the sign that reports have for what there is none of
_ROWS: Final = 16  # of shapes, and of metrics: a comment has room for so many

Name = Annotated[str, Field(max_length=120)]


class Figures(BaseModel):
    """What is compared.

    Attributes:
        commit: The commit that was measured; empty where it is not known.
        verdict: Its verdict.
        winner: The winner's name, or the finalist's that the report tells of; empty where nothing was confirmed.
        speedups: By shape, the estimate and its lower bound.
        quality: By metric, the candidate's value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    commit: Name = ""
    verdict: Verdict
    winner: Name = ""
    speedups: dict[Name, tuple[float, float]] = Field(default_factory=dict, max_length=_ROWS)
    quality: dict[Name, float] = Field(default_factory=dict, max_length=_ROWS)


def read_figures(evidence: Evidence, *, commit: str) -> Figures:
    """Return the figures of a run."""
    name = wording.format_candidate(evidence, evidence.subject) if evidence.subject else ""
    return Figures(
        commit=commit,
        verdict=evidence.verdict,
        winner=_shorten(name),
        speedups={_shorten(s.shape): (s.ratio.estimate, s.ratio.low) for s in evidence.speedups[:_ROWS]},
        quality={_shorten(q.metric): q.candidate for q in evidence.subject_quality[:_ROWS]},
    )


def hide_figures(figures: Figures) -> str:
    """Return the figures as a comment of HTML, in letters that cannot end it."""
    return f"<!-- kedro-hone:figures {base64.urlsafe_b64encode(figures.model_dump_json().encode()).decode()} -->"


def find_figures(body: str) -> Figures | None:
    """Return the figures that the body of a comment carries; None where there are none, or somebody edited them."""
    found = _HIDDEN.search(body)
    try:
        return Figures.model_validate_json(base64.urlsafe_b64decode(found[1])) if found else None
    except (ValueError, ValidationError):
        return None


def render_comparison(now: Figures, before: Figures, *, title: str) -> str:
    """Render a table of what was before and what is now, in GitHub's Markdown.

    Args:
        now: The figures of this run.
        before: Those of another.
        title: What the other one is, such as ``base branch``; not escaped.
    """
    rows = [("verdict", before.verdict.value, now.verdict.value)]
    rows.append(("candidate", _code(before.winner), _code(now.winner)))
    for shape in dict.fromkeys((*before.speedups, *now.speedups)):
        label = f"faster, {escape_markdown(wording.format_shape(shape))}"
        rows.append((label, _say_ratio(before.speedups.get(shape)), _say_ratio(now.speedups.get(shape))))
    for metric in dict.fromkeys((*before.quality, *now.quality)):
        values = (figures.quality.get(metric) for figures in (before, now))
        old, new = (_NONE if value is None else wording.format_metric(metric, value) for value in values)
        rows.append((escape_markdown(wording.format_metric_name(metric)), old, new))
    lines = [f"| | {title} | this run |", "|---|--:|--:|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def say_change(now: Figures, before: Figures) -> str:
    """Say in one line of Markdown what changed since the run before."""
    since = f" (`{before.commit[:7]}`)" if re.fullmatch("[0-9a-f]{40}", before.commit) else ""
    parts = []
    if now.verdict != before.verdict:
        parts.append(f"{before.verdict.value} → {now.verdict.value}")
    if now.winner != before.winner:
        parts.append(f"{_code(before.winner)} → {_code(now.winner)}")
    for shape, ratio in now.speedups.items():
        if (old := before.speedups.get(shape)) and old != ratio:
            name = escape_markdown(wording.format_shape(shape))
            parts.append(f"{name}: {wording.format_ratio(old[0])} → {wording.format_ratio(ratio[0])}")
    for metric, value in now.quality.items():
        if metric in before.quality and before.quality[metric] != value:
            shown = (wording.format_metric(metric, one) for one in (before.quality[metric], value))
            parts.append(f"{escape_markdown(wording.format_metric_name(metric))}: {' → '.join(shown)}")
    return f"**Since the last push**{since}: {'; '.join(parts) if parts else 'nothing changed'}.\n"


def _say_ratio(ratio: tuple[float, float] | None) -> str:
    return _NONE if ratio is None else f"{wording.format_ratio(ratio[0])} (at least {wording.format_ratio(ratio[1])})"


def _code(name: str) -> str:
    return f"`{escape_code(name)}`" if name else _NONE


def _shorten(name: str) -> str:
    return name if len(name) <= 120 else f"{name[:119]}…"
