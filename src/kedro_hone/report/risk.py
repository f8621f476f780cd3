"""The remaining risks of a winner, in one line, and its comparison with the published version."""

from __future__ import annotations

from collections.abc import Iterator

from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.measurement import BUSY, Quality
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord


def describe_risk(evidence: Evidence) -> str:
    """Return the remaining risks of the winner, from the evidence alone; empty without a winner."""
    if evidence.winner is None:
        return ""
    return "; ".join(_list_risks(evidence)) + "."


def list_changed_rows(evidence: Evidence) -> tuple[tuple[CandidateRecord, Quality], ...]:
    """Return the candidates with a known number of changed rows, each with its quality, on the gate split if known.

    They are those of a metric that is a share of right rows; the one with the fewest changed rows is first.
    """
    gate = {quality.id: quality for quality in reversed(evidence.quality) if quality.lost is not None}
    pairs = [(one, gate.get(one.id) or one.quality) for one in evidence.candidates if one.route]
    found = [(one, quality) for one, quality in pairs if quality and None not in (quality.lost, quality.gained)]
    return tuple(sorted(found, key=lambda pair: ((pair[1].lost or 0) + (pair[1].gained or 0)) / pair[1].n))


def list_changes(evidence: Evidence) -> tuple[tuple[str, str, str], ...]:
    """Return each gate on the winner against a published version: its name, the reason, and the judgement."""
    return tuple(
        (wording.format_gate(row), row.reason, row.judgement.value)
        for row in evidence.gates
        if row.against and row.candidate == evidence.subject and row.judgement is not GateOutcome.NOT_ASKED
    )


def _list_risks(evidence: Evidence) -> Iterator[str]:
    for one in evidence.subject_quality:
        name, sure = wording.format_metric_name(one.metric), wording.format_percent(one.drop.confidence)
        rows = f"{one.n:,} rows of the gate split"
        if one.drop.high > 0:
            yield f"{name} may be worse by up to {wording.format_drop(one.metric, one.drop.high)} ({sure}, {rows})"
        else:
            yield f"{name} is not worse ({sure}, {rows})"
        if one.doubt:
            yield f"the labels are doubtful: {one.doubt.rstrip('.')}"
    subject = evidence.find_candidate(evidence.subject or "")
    if subject is not None:
        yield from (f"limit: {limit.rstrip('.')}" for limit in subject.limits)
        differing = [one for one in subject.unscored if one.rows]
        yield from (
            f"output {one.output}, which no metric scores, differs in {one.rows:,} of {one.of:,} rows"
            for one in differing
        )
    if (evidence.confirmation.other_load or 0) > BUSY:
        yield "the machine was busy, so times may be far off"
    yield "times hold for this machine and these shapes only"
