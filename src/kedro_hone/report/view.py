"""What the page shows, as plain values: the template only places them."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kedro_hone.core.values.measurement import Quality, Status, Verdict
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.wording import (
    decide_decimals,
    format_bytes,
    format_count,
    format_drop,
    format_metric,
    format_ms,
    format_percent,
    format_range,
    format_ratio,
    format_seconds,
    is_fraction,
    name_metric,
    name_shape,
)

GROUPS: Final = (
    (
        Status.MEASURED,
        "Measured to the end",
        "Fastest first. Speed-ups here are the race’s estimates, which chose the finalists.",
    ),
    (
        Status.DROPPED,
        "Dropped early",
        "Clearly slower than the leader, or less accurate than the gate allows, so no more time was spent on them.",
    ),
    (
        Status.FAILED,
        "Failed",
        "A toolchain broke, or what it made is wrong. The logs are in the steps’ folders.",
    ),
    (
        Status.REFUSED,
        "Refused",
        "They cannot take this model, or cannot run on this machine; nothing was tried.",
    ),
    (Status.NOT_TRIED, "Not tried", "The budget ended before their turn."),
)


@dataclass(frozen=True, kw_only=True)
class KeyNumber:
    """One number of the strip under the verdict: what it is, the number, what it was before, and a remark."""

    label: str
    value: str
    before: str = ""
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The candidates of one status."""

    status: Status
    title: str
    explanation: str
    candidates: tuple[CandidateRecord, ...]


def list_key_numbers(evidence: Evidence) -> tuple[KeyNumber, ...]:
    """Return the numbers of the strip: what changed from the source to the winner, and what it cost."""
    subject = evidence.find_candidate(evidence.subject or "")
    source = evidence.find_candidate("source")
    numbers = [*_list_latencies(evidence)]
    for label, attribute, write in (
        ("Size on disk", "size_bytes", format_bytes),
        ("Cold start", "cold_start_ms", format_ms),
        ("Peak memory", "peak_memory_bytes", format_bytes),
    ):
        after = getattr(subject, attribute, None)
        before = getattr(source, attribute, None)
        if after is not None and evidence.winner is not None:
            numbers.append(KeyNumber(label=label, value=write(after), before="" if before is None else write(before)))
        elif before is not None:
            numbers.append(KeyNumber(label=label, value=write(before), remark="of the source"))
    if evidence.break_even_calls is not None:
        remark = f"the optimization took {format_seconds(evidence.optimization_seconds)}"
        numbers.append(
            KeyNumber(label="Pays off after", value=format_count(evidence.break_even_calls), remark=f"calls; {remark}")
        )
    elif evidence.optimization_seconds:
        numbers.append(KeyNumber(label="Optimization", value=format_seconds(evidence.optimization_seconds)))
    return tuple(numbers)


def _list_latencies(evidence: Evidence) -> list[KeyNumber]:
    numbers = []
    for both in evidence.latencies:
        after, before = (both.winner, format_ms(both.source.p50_ms)) if both.winner else (both.source, "")
        calls = f"median of {format_count(after.n)} calls{'' if both.winner else ' to the source'}"
        label = f"Latency at {name_shape(both.source.shape)}"
        numbers.append(KeyNumber(label=label, value=format_ms(after.p50_ms), before=before, remark=calls))
    return numbers


def say_provable(evidence: Evidence) -> str:
    """Return what the gate split can prove at all, in one sentence, or an empty string where it is not known."""
    for quality in evidence.subject_quality:
        if quality.provable is None:
            continue
        sentence = (
            f"With {format_count(quality.n)} rows the gate split cannot prove a limit below "
            f"{format_drop(quality.metric, quality.provable)} at {format_percent(quality.drop.confidence)}, "
            "even when nothing is lost"
        )
        if quality.limit is None:
            return f"{sentence}."
        return f"{sentence}; the recipe asks for {format_drop(quality.metric, quality.limit)}."
    return ""


def group_candidates(evidence: Evidence) -> tuple[Group, ...]:
    """Return the candidates by status, the measured and dropped ones fastest first."""
    groups = []
    for status, title, explanation in GROUPS:
        members = [candidate for candidate in evidence.candidates if candidate.status is status]
        if members:
            members.sort(key=lambda candidate: -(candidate.speedup.estimate if candidate.speedup else 0.0))
            groups.append(Group(status=status, title=title, explanation=explanation, candidates=tuple(members)))
    return tuple(groups)


def format_quality(candidate: CandidateRecord) -> str:
    """Return a candidate's metric on the search split."""
    return format_metric(candidate.quality.metric, candidate.quality.candidate) if candidate.quality else "–"


def list_spreads(evidence: Evidence) -> tuple[tuple[CandidateRecord, Quality], ...]:
    """Return the candidates of which it is known how much worse single rows are, the best candidate first.

    On the gate split where the candidate was looked at there, else on the search split.
    """
    gate: dict[str, Quality] = {quality.id: quality for quality in reversed(evidence.quality)}
    found = [(one, gate.get(one.id) or one.quality) for one in evidence.candidates]
    rows = [(candidate, quality) for candidate, quality in found if quality and quality.spread]
    return tuple(sorted(rows, key=lambda row: row[1].drop.estimate))


def list_spread_cells(quality: Quality) -> tuple[str, ...]:
    """Return one row of the table of spreads: the mean with what the gate compares, then the rows' quantiles."""
    numbers = [quality.drop.estimate, quality.drop.high]
    if quality.spread:
        numbers += quality.spread.model_dump().values()
    return tuple(format_drop(quality.metric, number, unit=False) for number in numbers)


SPREAD_COLUMNS: Final = ("mean", "at most", "best row", "5 %", "median", "95 %", "99 %", "worst row")
"""The columns of ``list_spread_cells``."""


def say_spread_unit(evidence: Evidence) -> str:
    """Return in which unit the spreads are, such as ``points of argmax agreement``."""
    metric = next((quality.metric for _, quality in list_spreads(evidence)), "")
    return f"{'points of ' if is_fraction(metric) else ''}{name_metric(metric)}"


def tag_candidate(evidence: Evidence, candidate: CandidateRecord) -> str:
    """Return ``winner``, ``source``, ``finalist`` or an empty string."""
    if evidence.winner and evidence.winner.candidate == candidate.id:
        return "winner"
    if not candidate.route:
        return "source"
    return "finalist" if any(finalist.id == candidate.id for finalist in evidence.finalists) else ""


def write_usage(evidence: Evidence, *, published: str | None) -> str:
    """Return three lines of Python that load and call the winner.

    Args:
        evidence: The evidence.
        published: The URI that it was published under, or None for the path on the machine of the run.

    Returns:
        Python source; empty where there is no winner.
    """
    if evidence.winner is None:
        return ""
    place = published or evidence.winner.path or evidence.winner.digest
    return f'import kedro_hone\nmodel = kedro_hone.load("{place}")\noutputs = model(inputs)  # as the source was called'


def read_gate(evidence: Evidence) -> float | None:
    """Return the speed-up that the recipe asks for, or None where it does not say."""
    gates = evidence.recipe.get("gates")
    value = gates.get("speedup") if isinstance(gates, dict) else None
    return float(value) if isinstance(value, (int, float)) else None


def describe_verdict(verdict: Verdict) -> str:
    """Return what a verdict means for the reader, in a few words."""
    return {
        Verdict.PASS: "A faster model holds every gate.",
        Verdict.KEEP: "No candidate beat the original: it stays. This is a success.",
        Verdict.FAIL: "What the recipe demands was not reached.",
        Verdict.INCONCLUSIVE: "Nothing was published, because nothing is proved.",
    }[verdict]


def format_estimate(candidate: CandidateRecord) -> tuple[str, str]:
    """Return a candidate's race estimate and its interval, as text."""
    if candidate.speedup is None:
        return "", ""
    ratio = candidate.speedup
    return (
        format_ratio(ratio.estimate, decide_decimals(ratio.estimate)),
        format_range(ratio),
    )
