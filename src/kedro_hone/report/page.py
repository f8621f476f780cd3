"""The page: one HTML file that needs no other file, no network and no script; and the templates of all reports."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.text import clean_text
from kedro_hone.report import scales, view, wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.plot import draw_chart

_TEMPLATES: Final = Path(__file__).with_name("templates")


def render_page(evidence: Evidence, publication: Publication | None = None) -> str:
    """Render the report as one self-contained HTML page that makes no request and runs no script."""
    gate = view.read_gate(evidence)
    return render(
        "page.html.j2",
        evidence,
        publication,
        css=Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        numbers=view.list_key_numbers(evidence),
        speed=scales.scale_speedups(evidence, gate=gate),
        gate=gate,
        qualities=[(quality, scales.scale_quality(quality)) for quality in evidence.subject_quality],
        chart=draw_chart(evidence),
        ratios=scales.scale_ratios(evidence),
    )


def render(template: str, evidence: Evidence, publication: Publication | None, **more: Any) -> str:
    """Render one of the templates, with what all of them show; ``more`` is for this one."""
    return _load_templates().get_template(template).render(
        evidence=evidence,
        publication=publication,
        headline=wording.say_headline(evidence),
        meaning=view.MEANINGS[evidence.verdict],
        provable=wording.say_provable(evidence),
        busy=wording.say_load(evidence),
        groups=view.group_candidates(evidence),
        spreads=view.list_spreads(evidence),
        usage=view.write_usage(evidence, published=publication.uri if publication else None),
        view=view,
        **more,
    )  # fmt: skip


def escape_markdown(text: str) -> str:
    """Make foreign text show as it is: no mark-up, no table cell, no image, no mention and no reference of it works."""
    flat = " ".join(text.split())
    flat = re.sub(r"([\\`*_{}\[\]<>#|!~$])", r"\\\1", flat)
    return re.sub(r"@(?=\w)|(?<=#)(?=\d)|(?<=ht)(?=tps?:)", lambda match: match[0] + "\u200b", flat)


def _escape_code(text: str) -> str:
    """Make text safe between the back-ticks of Markdown, in a table too."""
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def _break_after_marks(name: str) -> Markup:
    """Let a long identifier break after its dots and underscores."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[._])", name) if part)


def _keep_together(sentence: str) -> str:
    """Keep a number on the line of the word that it belongs to."""
    return re.sub(r" (?=\d+\b(?!\.))|(?<=\d) (?=points)", "\u00a0", sentence)


def _clean(value: object) -> object:
    """Return what an expression of a template shows, without control characters; ``Markup`` stays ``Markup``."""
    if not isinstance(value, str) or value == "\f":  # which separates the parts of the comment, and is ours
        return value
    return type(value)(clean_text(value))


_FILTERS: Final = {
    "breakable": _break_after_marks,
    "bytes": wording.format_bytes,
    "candidate_name": wording.name_candidate,
    "code": _escape_code,
    "count": wording.format_count,
    "drop": wording.format_drop,
    "escaped": escape_markdown,
    "metric": wording.format_metric,
    "metric_name": wording.name_metric,
    "ms": wording.format_ms,
    "lead": wording.format_lead,
    "percent": wording.format_percent,
    "range": wording.format_range,
    "ratio": wording.format_ratio,
    "rest": wording.format_rest,
    "route_name": wording.name_route,
    "seconds": wording.format_seconds,
    "shape_name": wording.name_shape,
    "status": wording.STATUS_NAMES.__getitem__,
    "unbroken": _keep_together,
}


@cache
def _load_templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(("html.j2", "svg.j2")),  # Markdown escapes in its own way
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment
