"""What the page shows, as plain values: the template only places them."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kedro_hone.core.values.measurement import Spread, Status, Verdict
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord, QualityRecord
from kedro_hone.report.wording import (
    decide_decimals,
    find_subject,
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
    list_winner_quality,
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
        "Plainly slower than the leader, or less accurate than the gate allows, so no more time was spent on them.",
    ),
    (
        Status.FAILED,
        "Failed",
        "A toolchain broke, or what it made is wrong. The logs lie in the steps’ folders.",
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
    subject = evidence.find_candidate(find_subject(evidence) or "")
    source = next((candidate for candidate in evidence.candidates if not candidate.route), None)
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
    for both in evidence.latency.shapes if evidence.latency else ():
        label = f"Latency at {name_shape(both.shape)}"
        if both.winner is None:
            calls = f"median of {format_count(both.source.n)} calls to the source"
            numbers.append(KeyNumber(label=label, value=format_ms(both.source.p50_ms), remark=calls))
        else:
            calls = f"median of {format_count(both.winner.n)} calls"
            numbers.append(
                KeyNumber(
                    label=label,
                    value=format_ms(both.winner.p50_ms),
                    before=format_ms(both.source.p50_ms),
                    remark=calls,
                )
            )
    return numbers


def say_provable(evidence: Evidence) -> str:
    """Return what the gate split can prove at all, in one sentence, or an empty string where it is not known."""
    for record in list_winner_quality(evidence):
        if record.provable is None:
            continue
        least = format_drop(record.metric, record.provable)
        sentence = (
            f"With {format_count(record.n)} rows the gate split cannot prove a limit below {least} at "
            f"{format_percent(record.confidence)}, even when nothing is lost"
        )
        if record.limit is None:
            return f"{sentence}."
        return f"{sentence}; the recipe asks for {format_drop(record.metric, record.limit)}."
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


def format_quality(evidence: Evidence, candidate: CandidateRecord) -> str:
    """Return a candidate's metric on the search split; the source's stands in everybody else's record."""
    if candidate.quality:
        return format_metric(candidate.quality.metric, candidate.quality.winner)
    reference = next((one.quality for one in evidence.candidates if one.quality), None)
    return format_metric(reference.metric, reference.source) if reference and not candidate.route else "–"


def list_spreads(evidence: Evidence) -> tuple[tuple[CandidateRecord, QualityRecord, Spread], ...]:
    """Return how much worse the single rows of each candidate are, the best candidate first.

    On the gate split where the candidate was looked at there, else on the search split.
    """
    rows = []
    for candidate in evidence.candidates:
        gate = next((record for record in evidence.quality if record.candidate == candidate.id), None)
        record = gate or candidate.quality
        if record is not None and record.spread is not None:
            rows.append((candidate, record, record.spread))
    return tuple(sorted(rows, key=lambda row: row[1].drop))


def list_spread_cells(record: QualityRecord, spread: Spread) -> tuple[str, ...]:
    """Return one row of the table of spreads: the mean with what the gate compares, then the rows' quantiles."""
    numbers = (record.drop, record.high, spread.best, spread.p5, spread.median, spread.p95, spread.p99, spread.worst)
    return tuple(format_drop(record.metric, number, unit=False) for number in numbers)


SPREAD_COLUMNS: Final = ("mean", "at most", "best row", "5 %", "median", "95 %", "99 %", "worst row")
"""The columns of ``list_spread_cells``."""


def say_spread_unit(evidence: Evidence) -> str:
    """Return in which unit the spreads are, such as ``points of argmax agreement``."""
    record = next((record for _, record, _ in list_spreads(evidence)), None)
    if record is None:
        return ""
    return f"{'points of ' if is_fraction(record.metric) else ''}{name_metric(record.metric)}"


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
        format_range(ratio.low, ratio.high, estimate=ratio.estimate),
    )
