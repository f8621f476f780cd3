"""The one view of a run's evidence: the texts and figures that its reports show, as plain values."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.registry import Publication
from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import BUSY, Interval, Latency, Quality, Speedup, Status
from kedro_hone.report import wording
from kedro_hone.report.claims import format_speed
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.plot import Chart, draw_charts
from kedro_hone.report.quotients import describe_quotients
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.scales import Scale, scale_ratios, scale_speedups

_HEADLINES: Final = {
    Verdict.KEEP: "The original stays: no candidate was faster and passed every gate",
    Verdict.FAIL: "No candidate meets the recipe’s gates",
    Verdict.INCONCLUSIVE: "The measurements cannot decide",
    Verdict.DRAFT: "A draft: the inputs were drawn at random, so nothing is proved",
}
_MEANINGS: Final = {
    Verdict.PASS: "A faster model passes every gate.",
    Verdict.KEEP: "No candidate was fast enough and passed every gate: the original stays. This is a success.",
    Verdict.FAIL: "The recipe's requirement was not reached.",
    Verdict.INCONCLUSIVE: "Nothing was published, because nothing was proved.",
    Verdict.DRAFT: "Missing for a proof: rows of the data that the model is used on, with labels where it has a task.",
}
_ORDER: Final = (Status.MEASURED, Status.DROPPED, Status.FAILED, Status.REFUSED, Status.NOT_TRIED)
_CALLS: Final = {
    "transformers": "outputs = model(**inputs)  # what the source takes, such as the tensors of its tokenizer",
    "sklearn": "predictions = model.predict(rows)  # as the source does; predict_proba, too, where it has that",
    "keras": "outputs = model.predict(inputs)  # as the source does",
}
"""How to call a winner, by its interface."""
_SOURCE: Final = "source"
_LOAD_GATE: Final = "other_load"
_MOST: Final = 16  # the most shapes, and metrics, in a comparison of two runs


class Number(NamedTuple):
    """One number of the winner, or otherwise of the source: its label, its earlier value, and a remark."""

    label: str
    value: str
    before: str = ""
    remark: str = ""


class Time(NamedTuple):
    """Median times at one shape, and their ratio: its estimate and interval, or a wide interval first."""

    shape: str
    source: str
    candidate: str
    ratio: str
    rest: str
    confidence: str


@dataclass(frozen=True)
class View:
    """The contents of a run's reports. A text that does not apply is empty.

    Attributes:
        evidence: The complete evidence, for values that are shown unchanged.
        publication: The publication of the winner; None if it was not published.
        place: The folder of the winner on this machine, for a text that stays here; by default as in the evidence.
    """

    evidence: Evidence
    publication: Publication | None = None
    place: str = ""

    @cached_property
    def headline(self) -> str:
        """The verdict as one sentence without a full stop at the end.

        It includes the compared model, unless the recipe has the author's class.
        """
        evidence, baseline = self.evidence, self.evidence.source.baseline
        if evidence.verdict is Verdict.INCONCLUSIVE and not any(finalist.speedups for finalist in evidence.finalists):
            return "No candidate could be compared with the original"
        text = _HEADLINES.get(evidence.verdict, "")
        if evidence.verdict is Verdict.PASS:
            losses = map(wording.format_loss, evidence.subject_quality[:1])
            text = ", ".join([format_speed(evidence.speedups), *losses])
            text += ", on a busy machine" if self._load[0] > BUSY else ""
        named = (evidence.recipe.get("model") or {}).get("module")
        return text if named or not baseline else f"{text}, measured against {baseline}"

    @property
    def meaning(self) -> str:
        """The meaning of a verdict of this kind."""
        return _MEANINGS[self.evidence.verdict]

    @property
    def machine(self) -> str:
        """The processor, and the accelerator if there is one."""
        return ", ".join(filter(None, (self.evidence.hardware.processor, self.evidence.hardware.gpu)))

    @cached_property
    def load(self) -> str:
        """A warning that the machine was busy with other work."""
        share, phase = self._load
        compared = any(candidate.route and candidate.ratios for candidate in self.evidence.candidates)
        if share <= BUSY or not compared:
            return ""
        return (
            f"This machine was busy: other processes took {share * 100:.0f} % of its cores while the candidates were "
            f"{phase}. Times may be far off, and ratios too: load slows programs of many threads most, often the "
            "source. Measure again on a quiet machine before you rely on them."
        )

    @cached_property
    def _load(self) -> tuple[float, str]:
        """The share of the cores that other processes used, 0 if unknown, and in which phase.

        It is that of the confirmation, or otherwise of the race. If the winner was also compared with a published
        version, for which the load is only in a judgement, the larger share counts.
        """
        gates = [row.measured for row in self.evidence.gates if row.name == _LOAD_GATE and row.against]
        shares = [share for share in (self.evidence.confirmation.other_load, *gates) if share is not None]
        return (max(shares), "confirmed") if shares else (self.evidence.race.other_load or 0.0, "raced")

    @cached_property
    def provable(self) -> str:
        """The smallest drop that the gate split can prove."""
        for one in self.evidence.subject_quality:
            if one.provable is not None:
                least, sure = wording.format_drop(one.metric, one.provable), wording.format_percent(one.drop.confidence)
                limit = "" if one.limit is None else wording.format_drop(one.metric, one.limit)
                demand = f"; the recipe requires {limit}" if limit else ""
                return (
                    f"With {one.n:,} rows the gate split cannot prove a limit below {least} at {sure}, even when "
                    f"nothing is lost{demand}."
                )
        return ""

    @property
    def winner(self) -> str:
        """The winner's name."""
        return wording.format_candidate(self.evidence, self.evidence.winner.candidate) if self.evidence.winner else ""

    @property
    def winner_in_words(self) -> str:
        """The winner as precision and runtime, of a composite for each shape."""
        return wording.describe_candidate(self.evidence, self.evidence.winner.candidate) if self.evidence.winner else ""

    @cached_property
    def confirmed(self) -> dict[str, Interval]:
        """The confirmed speed-ups, by the candidate's id: they replace the race's estimates everywhere."""
        return {one.id: one.deciding.ratio for one in self.evidence.finalists if one.deciding}

    @cached_property
    def tally(self) -> dict[Status, int]:
        """The number of candidates with each status, without the source."""
        counts = {status: sum(one.id != _SOURCE for one in group) for status, group in self.groups.items()}
        return {status: count for status, count in counts.items() if count}

    @cached_property
    def usage(self) -> str:
        """A few lines of Python that load the winner, by its URI or otherwise its path, and call it.

        A signed winner is loaded by its signature, whatever its format: then ``trust`` is not needed.
        """
        winner, publication = self.evidence.winner, self.publication
        if winner is None:
            return ""
        place = (publication and publication.uri) or self.place or winner.path or winner.digest
        call = _CALLS.get(winner.interface, "outputs = model(*inputs)  # the inputs of the source, in its order")
        option = ', trust=["native"]' if read_catalogue().is_code(winner.format, winner.runtime) else ""
        if publication and publication.signer:
            by_key = publication.signer.startswith("sha256:")
            policy = 'keys=["publisher.pem"]' if by_key else 'identity="…", issuer="…"'
            what = "publisher.pem is the public key of the signer" if by_key else "identity and issuer are the signer's"
            option, call = f", verify=kedro_hone.Policy({policy})", f"# {what}\n{call}"
        note = "" if ":" in place or Path(place).is_absolute() else "  # a path from the project's folder"
        # A JSON string is also a Python string.
        return f"import kedro_hone\nmodel = kedro_hone.load({json.dumps(place)}{option}){note}\n{call}"

    @cached_property
    def times(self) -> tuple[Time, ...]:
        """Times and speed-up of the winner, or otherwise of the reported finalist."""
        own = next((one.latency for one in self.evidence.finalists if one.id == self.evidence.subject), ())
        return self.list_times(self.evidence.speedups, own)

    @cached_property
    def quotient(self) -> str:
        """A sentence where the quotient of the median times is another one than the speed-up of paired launches."""
        return describe_quotients(self.evidence)

    def list_times(self, speedups: Iterable[Speedup], latency: Iterable[Latency]) -> tuple[Time, ...]:
        """Return times and speed-up of a finalist at each shape."""
        before = {one.source.shape: wording.format_ms(one.source.p50_ms) for one in self.evidence.latencies}
        after = {one.shape: wording.format_ms(one.p50_ms) for one in latency}
        return tuple(
            Time(
                wording.format_shape(one.shape),
                before.get(one.shape, wording.NONE),
                after.get(one.shape, wording.NONE),
                *wording.format_pair(one.ratio),
                wording.format_percent(one.ratio.confidence),
            )
            for one in speedups
        )

    def compare(self, before: View) -> list[tuple[str, str, str]]:
        """Return a few figures of another run and of this one, each with its label."""
        old, new = before._figures, self._figures
        return [(label, old.get(label, wording.NONE), new.get(label, wording.NONE)) for label in (old | new)]

    @property
    def _figures(self) -> dict[str, str]:
        evidence = self.evidence
        name = wording.format_candidate(evidence, evidence.subject) if evidence.subject else wording.NONE
        found = {"verdict": evidence.verdict.value, "candidate": name}
        for speedup in evidence.speedups[:_MOST]:
            found[f"faster, {wording.format_shape(speedup.shape)}"] = wording.format_least(speedup.ratio)
        for one in evidence.subject_quality[:_MOST]:
            found[wording.format_metric_name(one.metric)] = wording.format_metric(one.metric, one.candidate)
        return found

    @cached_property
    def costs(self) -> tuple[Number, ...]:
        """Other changes from the source to the winner, and the cost of the optimization."""
        evidence, numbers = self.evidence, []
        source = evidence.find_candidate("source")
        winner = evidence.find_candidate(evidence.winner.candidate) if evidence.winner else None
        for label, attribute, write, remark in (
            ("Size on disk", "size_bytes", wording.format_bytes, ""),
            ("Cold start", "cold_start_ms", wording.format_ms, "measured once"),
            ("Peak memory", "peak_memory_bytes", wording.format_bytes, ""),
        ):
            new, old = getattr(winner, attribute, None), getattr(source, attribute, None)
            if new is not None:
                numbers.append(Number(label, write(new), "" if old is None else write(old), remark))
            elif old is not None:
                numbers.append(Number(label, write(old), remark=f"of the source, {remark}".rstrip(", ")))
        took, calls = wording.format_seconds(evidence.optimization_seconds), evidence.break_even_calls
        if calls is not None:
            numbers.append(
                Number(
                    "Pays off after", f"{calls:,}", remark=f"calls; the optimization takes {took} with an empty store"
                )
            )
        elif evidence.optimization_seconds:
            numbers.append(Number("Optimization", took))
        return tuple(numbers)

    @cached_property
    def groups(self) -> dict[Status, list[CandidateRecord]]:
        """The candidates by status, in the order of the reports; within each the fastest first."""
        fastest = sorted(self.evidence.candidates, key=lambda one: -(one.speedup.estimate if one.speedup else 0.0))
        return {status: group for status in _ORDER if (group := [one for one in fastest if one.status is status])}

    @cached_property
    def front(self) -> list[CandidateRecord]:
        """The candidates of the Pareto front, fastest first; empty if there is no choice."""
        found = [one for name in self.evidence.front if (one := self.evidence.find_candidate(name))]
        return found if len(found) > 1 else []

    @cached_property
    def spreads(self) -> list[tuple[CandidateRecord, Quality]]:
        """How much worse single rows are, if known: on the gate split, otherwise on the search split; best first."""
        gate: dict[str, Quality] = {quality.id: quality for quality in reversed(self.evidence.quality)}
        found = [(one, gate.get(one.id) or one.quality) for one in self.evidence.candidates]
        rows = [(candidate, quality) for candidate, quality in found if quality and quality.spread]
        return sorted(rows, key=lambda row: row[1].drop.estimate)

    @property
    def gate(self) -> float | None:
        """The speed-up that the recipe requires."""
        gates: dict[str, float | None] = self.evidence.recipe.get("gates") or {}
        return gates.get("speedup")

    @cached_property
    def scale(self) -> Scale | None:
        """The confirmed speed-ups on one scale."""
        return scale_speedups(self.evidence, gate=self.gate)

    @cached_property
    def ratios(self) -> dict[str, Interval]:
        """The positions of the speed-ups' intervals on one scale, by the candidate's id."""
        return scale_ratios(self.evidence, self.confirmed)

    @cached_property
    def charts(self) -> tuple[Chart, ...]:
        """Quality against latency at each shape, the deciding one first."""
        return draw_charts(self.evidence)
