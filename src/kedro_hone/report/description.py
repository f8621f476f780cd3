"""What a registry shows of a winner to people: a few lines of Markdown, and four tags that need no key to be read."""

from __future__ import annotations

from collections.abc import Iterator

from kedro_hone.core.contract.proof import EVIDENCE_FOLDER, REPORTS
from kedro_hone.core.text import clean_text
from kedro_hone.core.values.measurement import Interval, Quality, is_bounded
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.wording import (
    format_drop,
    format_metric,
    format_ms,
    name_candidate,
    name_metric,
    name_shape,
)


def describe_winner(evidence: Evidence) -> str:
    """Return what a winner is, as Markdown: how much faster, at what cost, by what, and where the proof is.

    How it is loaded is added by its registry, which knows the URI and whether an alias points to it.
    """
    speed, source = _say_speed(evidence), _quote(evidence.source.uri)
    begin = f"**{speed}** as {source}" if speed else f"**Made from** {source}"
    lines = [f"{begin}{_say_loss(evidence)}.", ""]
    lines += [*_list_rows(evidence), ""]
    lines += [f"Made by {_quote(_name_winner(evidence))}, measured on {_name_machine(evidence)}.", ""]
    lines.append(f"Report: {_quote(f'{EVIDENCE_FOLDER}/{REPORTS[0]}')} among the files of this version.")
    return clean_text("\n".join(lines)) + "\n"


def list_readable_tags(evidence: Evidence) -> dict[str, str]:
    """Return four tags for people; their capital letters put them before those that programs read."""
    said = {
        "Speed": _say_speed(evidence),
        "Quality": "; ".join(_say_quality(one) for one in evidence.subject_quality),
        "Made by": _name_winner(evidence),
        "Measured on": _name_machine(evidence),
    }
    return {name: clean_text(text)[:500] for name, text in said.items() if text}


def _say_speed(evidence: Evidence) -> str:
    """Return such as ``3.6 times as fast (3.4 to 3.9) at batch 1``; nothing where no speedup was measured."""
    found = evidence.speedup
    if found is None:
        return ""
    middle, ends = _write(found.ratio.estimate), _write_ends(found.ratio)
    return f"{middle} times as fast ({ends}) at {name_shape(found.shape)}"


def _write(ratio: float) -> str:
    return f"{ratio:,.{2 if ratio < 2 else 1 if ratio < 10 else 0}f}"


def _write_ends(ratio: Interval) -> str:
    if not is_bounded(ratio.high):
        return f"{_write(ratio.low)} or more"
    return f"{_write(ratio.low)} to {_write(ratio.high)}"


def _say_loss(evidence: Evidence) -> str:
    said = [
        f"{name_metric(one.metric)} within {format_drop(one.metric, max(one.drop.high, 0.0))}"
        for one in evidence.subject_quality
    ]
    return "".join(f", {one}" for one in said)


def _say_quality(quality: Quality) -> str:
    value = format_metric(quality.metric, quality.candidate)
    return f"{name_metric(quality.metric)} {value}, within {format_drop(quality.metric, max(quality.drop.high, 0.0))}"


def _list_rows(evidence: Evidence) -> Iterator[str]:
    yield "| | source | winner |"
    yield "|---|--:|--:|"
    for row in evidence.latencies:
        if row.winner is not None:
            times = f"{format_ms(row.source.p50_ms)} | {format_ms(row.winner.p50_ms)}"
            yield f"| median time, {name_shape(row.source.shape)} | {times} |"
    for one in evidence.subject_quality:
        values = f"{format_metric(one.metric, one.source)} | {format_metric(one.metric, one.candidate)}"
        yield f"| {name_metric(one.metric)}, {one.n:,} rows | {values} |"


def _name_winner(evidence: Evidence) -> str:
    return name_candidate(evidence, evidence.winner.candidate) if evidence.winner else ""


def _name_machine(evidence: Evidence) -> str:
    threads = evidence.hardware.threads
    return evidence.hardware.cpu + (f", {threads} thread{'s' if threads != 1 else ''}" if threads else "")


def _quote(text: str) -> str:
    """Return a text as code, which Markdown does not read; a backtick in it would end that."""
    return f"`{text.replace('`', chr(39))}`"
