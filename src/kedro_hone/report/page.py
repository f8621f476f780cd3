"""The page: one HTML file that needs no other file, no network and no script."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kedro_hone.core.contract.registry import Publication
from kedro_hone.report import scales, view, wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.gates import COLUMNS, list_gate_rows
from kedro_hone.report.plot import draw_chart

_TEMPLATES: Final = Path(__file__).with_name("templates")


def _break_after_marks(name: str) -> Markup:
    """Let a long identifier break after its dots and underscores."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[._])", name) if part)


def _keep_together(sentence: str) -> str:
    """Keep a number on the line of the word that it belongs to."""
    return re.sub(r" (?=\d+\b(?!\.))|(?<=\d) (?=points)", "\u00a0", sentence)


_FILTERS: Final = {
    "breakable": _break_after_marks,
    "unbroken": _keep_together,
    "bytes": wording.format_bytes,
    "count": wording.format_count,
    "metric": wording.format_metric,
    "metric_name": wording.name_metric,
    "ms": wording.format_ms,
    "percent": wording.format_percent,
    "ratio": wording.format_ratio,
    "seconds": wording.format_seconds,
    "shape_name": wording.name_shape,
}


@cache
def _load_templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment


def render_page(evidence: Evidence, publication: Publication | None = None) -> str:
    """Render the report as one self-contained HTML page.

    Args:
        evidence: The evidence.
        publication: Where the winner went, or None when it was not published (or not yet).

    Returns:
        HTML that makes no request and runs no script.
    """
    gate = view.read_gate(evidence)
    return _load_templates().get_template("page.html.j2").render(
        evidence=evidence,
        publication=publication,
        css=Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        headline=wording.say_headline(evidence),
        meaning=view.describe_verdict(evidence.verdict),
        numbers=view.list_key_numbers(evidence),
        speed=scales.scale_speedups(evidence, gate=gate),
        gate=gate,
        qualities=[(quality, scales.scale_quality(quality)) for quality in evidence.subject_quality],
        provable=view.say_provable(evidence),
        chart=draw_chart(evidence),
        gate_columns=COLUMNS,
        gate_rows=list_gate_rows(evidence),
        groups=view.group_candidates(evidence),
        fastest=scales.find_fastest(evidence),
        usage=view.write_usage(evidence, published=publication.uri if publication else None),
        format_range=wording.format_range,
        scales=scales,
        view=view,
        status_names=wording.STATUS_NAMES,
    )  # fmt: skip
