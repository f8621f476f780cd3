"""What the reports show, as plain values: the templates and the console only place them."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.values.decision import Verdict
from kedro_hone.core.values.judgement import Judgement
from kedro_hone.core.values.measurement import Quality, Status, is_bounded
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord

MEANINGS: Final = {
    Verdict.PASS: "A faster model holds every gate.",
    Verdict.KEEP: "No candidate was so much faster and held every gate: the original stays. This is a success.",
    Verdict.FAIL: "What the recipe demands was not reached.",
    Verdict.INCONCLUSIVE: "Nothing was published, because nothing is proved.",
}

SPREAD_COLUMNS: Final = ("mean", "at most", "best row", "5 %", "median", "95 %", "99 %", "worst row")
GATE_COLUMNS: Final = ("limit", "measured", "interval", "judgement")


class KeyNumber(NamedTuple):
    """One number of the strip under the verdict: what it is, the number, what it was before, and a remark."""

    label: str
    value: str
    before: str = ""
    remark: str = ""


def list_latencies(evidence: Evidence) -> list[KeyNumber]:
    """Return the times at each shape, of the source and the winner."""
    numbers = []
    for both in evidence.latencies:
        label, before = f"Latency at {wording.name_shape(both.source.shape)}", wording.format_ms(both.source.p50_ms)
        shown, before, of = (both.winner, before, "") if both.winner else (both.source, "", " to the source")
        numbers.append(KeyNumber(label, wording.format_ms(shown.p50_ms), before, f"median of {shown.n:,} calls{of}"))
    return numbers


def list_costs(evidence: Evidence) -> list[KeyNumber]:
    """Return what else changed from the source to the winner, and what the optimization cost."""
    numbers = []
    source = evidence.find_candidate("source")
    winner = evidence.find_candidate(evidence.winner.candidate) if evidence.winner else None
    for label, attribute, write, remark in (
        ("Size on disk", "size_bytes", wording.format_bytes, ""),
        ("Cold start", "cold_start_ms", wording.format_ms, "measured once"),
        ("Peak memory", "peak_memory_bytes", wording.format_bytes, ""),
    ):
        new, old = getattr(winner, attribute, None), getattr(source, attribute, None)
        if new is not None:
            numbers.append(KeyNumber(label, write(new), "" if old is None else write(old), remark))
        elif old is not None:
            numbers.append(KeyNumber(label, write(old), remark=f"of the source, {remark}".rstrip(", ")))
    took, calls = wording.format_seconds(evidence.optimization_seconds), evidence.break_even_calls
    if calls is not None:
        numbers.append(KeyNumber("Pays off after", f"{calls:,}", remark=f"calls; the optimization took {took}"))
    elif evidence.optimization_seconds:
        numbers.append(KeyNumber("Optimization", took))
    return numbers


def group_candidates(evidence: Evidence) -> dict[Status, list[CandidateRecord]]:
    """Return the candidates by status, in the order of the report; in each the fastest first."""
    fastest = sorted(evidence.candidates, key=lambda one: -(one.speedup.estimate if one.speedup else 0.0))
    order = (Status.MEASURED, Status.DROPPED, Status.FAILED, Status.REFUSED, Status.NOT_TRIED)
    return {status: group for status in order if (group := [one for one in fastest if one.status is status])}


def group_reasons(candidates: Iterable[CandidateRecord]) -> list[list[CandidateRecord]]:
    """Return candidates that were not measured, those with one and the same reason together, in the order given."""
    groups: dict[tuple[str, ...], list[CandidateRecord]] = {}
    for one in candidates:
        known = (one.failure_class or "", one.reason, one.note) if one.reason else (one.id,)
        groups.setdefault(known, []).append(one)
    return list(groups.values())


def list_front(evidence: Evidence) -> list[CandidateRecord]:
    """Return the candidates of the Pareto front, fastest first; none where there is nothing to choose."""
    found = [one for name in evidence.front if (one := evidence.find_candidate(name))]
    return found if len(found) > 1 else []


def format_quality(candidate: CandidateRecord) -> str:
    """Return a candidate's metric on the search split."""
    return wording.format_metric(candidate.quality.metric, candidate.quality.candidate) if candidate.quality else "–"


def list_spreads(evidence: Evidence) -> tuple[tuple[CandidateRecord, Quality], ...]:
    """Return how much worse single rows are, where known: on the gate split, or else the search split; best first."""
    gate: dict[str, Quality] = {quality.id: quality for quality in reversed(evidence.quality)}
    found = [(one, gate.get(one.id) or one.quality) for one in evidence.candidates]
    rows = [(candidate, quality) for candidate, quality in found if quality and quality.spread]
    return tuple(sorted(rows, key=lambda row: row[1].drop.estimate))


def list_spread_cells(quality: Quality) -> tuple[str, ...]:
    """Return one row of the table of spreads: the mean with what the gate compares, then the rows' quantiles."""
    quantiles = quality.spread.model_dump().values() if quality.spread else ()
    numbers = (quality.drop.estimate, quality.drop.high, *quantiles)
    return tuple(wording.format_drop(quality.metric, number, unit=False) for number in numbers)


def say_spread_unit(evidence: Evidence) -> str:
    """Return in which unit the spreads are, such as ``points of argmax agreement``."""
    metric = next((quality.metric for _, quality in list_spreads(evidence)), "")
    return f"{'points of ' if wording.is_fraction(metric) else ''}{wording.name_metric(metric)}"


def name_gate(judgement: Judgement) -> str:
    """Return the gate's name, with the shape where it is about one, and with whom it compared if not the source."""
    shape = f", {wording.name_shape(judgement.shape)}" if judgement.shape else ""
    return f"{judgement.name}{shape}{f', against {judgement.against}' if judgement.against else ''}"


def list_gate_cells(judgement: Judgement) -> tuple[str, ...]:
    """Return what ``GATE_COLUMNS`` names: numbers with four significant digits, a dash where there is none."""
    limit, measured = (
        "–" if number is None else f"{number:,.4g} {wording.name_metric(judgement.unit)}".rstrip()
        for number in (judgement.limit, judgement.measured)
    )
    low, high, interval = judgement.low, judgement.high, "–"
    if low is not None and high is not None:
        interval = f"{low:.4g} to {high:.4g}" if is_bounded(low) or is_bounded(high) else "unbounded"
    return limit, measured, interval, judgement.judgement.value


def tag_candidate(evidence: Evidence, candidate: CandidateRecord) -> str:
    """Return ``winner``, ``source``, ``finalist`` or an empty string."""
    if evidence.winner and evidence.winner.candidate == candidate.id:
        return "winner"
    if not candidate.route:
        return "source"
    return "finalist" if any(finalist.id == candidate.id for finalist in evidence.finalists) else ""


_CALLS: Final = {
    "transformers": "outputs = model(**inputs)  # what the source takes, such as the tensors of its tokenizer",
    "sklearn": "predictions = model.predict(rows)  # as the source does; predict_proba, too, where it has that",
    "keras": "outputs = model.predict(inputs)  # as the source does",
}
"""How a winner is called, by the interface that it has."""


def write_usage(evidence: Evidence, publication: Publication | None = None) -> str:
    """Return a few lines of Python that load the winner, by its URI or else its path, and call it; if there is one.

    What is signed is loaded by its signature, whatever its format: then nothing has to be trusted.
    """
    if evidence.winner is None:
        return ""
    place = (publication and publication.uri) or evidence.winner.path or evidence.winner.digest
    named = json.dumps(place)  # Python's text, too, whatever quotes and line breaks a name holds
    call = _CALLS.get(evidence.winner.interface, "outputs = model(*inputs)  # the inputs of the source, in its order")
    trust = ', trust=["native"]' if read_catalogue().is_code(evidence.winner.format, evidence.winner.runtime) else ""
    if publication and publication.signer:
        by_key = publication.signer.startswith("sha256:")
        policy = 'keys=["publisher.pem"]' if by_key else 'identity="…", issuer="…"'
        said = "publisher.pem is the public key of who signed it" if by_key else "identity and issuer say who signed it"
        trust, call = f", verify=kedro_hone.Policy({policy})", f"# {said}\n{call}"
    return f"import kedro_hone\nmodel = kedro_hone.load({named}{trust})\n{call}"
