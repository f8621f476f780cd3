"""Evaluate the gates for the finalists, and make the verdict from their judgements. Nothing is run here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Confirmation, Latency, Quality, RaceResult, Status, Validation
from hone_runtime.values.samples import Predicted
from kedro_hone.core.gates import Gate, Measurements, has_limit, read_gates
from kedro_hone.core.stats.speed import Faster
from kedro_hone.recipe.gates import GatesSection
from kedro_hone.search.gates import tail
from kedro_hone.search.verdict.anomaly import ANOMALOUS, find_anomaly, list_reasons
from kedro_hone.search.verdict.causes import explain


def list_limits(gates: GatesSection) -> dict[Gate, Any]:
    """Return the gates for which a recipe has a limit, with it, in the order of evaluation."""
    return {gate: limit for gate in read_gates() if has_limit(limit := getattr(gates, gate.name))}


@dataclass(kw_only=True)
class GateResults:
    """The judgements of the gates on the finalists, fastest first; each is named by its id."""

    gates: GatesSection
    source: Measurements
    score: Callable[[str], Quality | str]  # from an id to its metric on the gate split, or why it is unknown
    judgements: dict[str, list[Judgement]] = field(default_factory=dict)  # the source's only if it was evaluated
    qualities: dict[str, Quality] = field(default_factory=dict)  # on the gate split, of each scored one
    withheld: dict[str, str] = field(default_factory=dict)  # why faster ones may not be published
    anomalies: dict[str, str] = field(default_factory=dict)  # of trained ones that pass every relative gate
    allows_anomalies: bool = False  # by `publish.allow`
    eligible: list[str] = field(default_factory=list)  # those that pass every relative gate, in order
    winner: str | None = None  # the first of them that passes every gate

    @cached_property
    def limits(self) -> dict[Gate, Any]:
        """The gates for which the recipe has a limit, with it, in the order of evaluation."""
        return list_limits(self.gates)

    @property
    def best(self) -> str | None:
        """The winner; otherwise, of those that pass every relative gate, the first that fails no gate, or the first."""
        failed = self.failed
        ordered = sorted(self.eligible, key=lambda name: name in failed)
        return self.winner or next(iter(ordered), None)

    @property
    def failed(self) -> frozenset[str]:
        """The finalists that fail a gate."""
        return frozenset(row.candidate for row in self.list_judgements(GateOutcome.FAILS))

    @property
    def reported(self) -> str | None:
        """The finalist with the reported speed-up: the best; otherwise one in doubt, or the first scored."""
        doubts = (row.candidate for _, rows in self.list_undecided() for row in rows)
        return self.best or next(iter((*doubts, *self.qualities)), None)

    def list_undecided(self) -> list[tuple[Gate, list[Judgement]]]:
        """Return the undecided relative gates, the last evaluated one first, with their judgements.

        A finalist that fails another gate is not in doubt; but if a gate of the machine is undecided, nothing else is
        certain.
        """
        failed, rows = self.failed, self.list_judgements(GateOutcome.UNDECIDED)
        found = [(gate, [row for row in rows if row.name == gate.name]) for gate in self.choose(relative=True)]
        for gate, doubted in found:
            if gate.of_machine and doubted:
                return [(gate, sorted(doubted, key=lambda row: row.candidate in failed))]
        sound = [(gate, [row for row in doubted if row.candidate not in failed]) for gate, doubted in found]
        return [doubt for doubt in reversed(sound) if doubt[1]]

    def list_judgements(self, judged: GateOutcome | None = None) -> tuple[Judgement, ...]:
        """Return all judgements, or those of one kind, finalist by finalist."""
        rows = (judgement for judgements in self.judgements.values() for judgement in judgements)
        return tuple(row for row in rows if judged is None or row.judgement is judged)

    def choose(self, *, relative: bool, scored: bool | None = None) -> list[Gate]:
        """Return the gates of one kind."""
        return [gate for gate in self.limits if gate.relative is relative and scored in {None, gate.scored}]

    def find_anomaly(self, finalist: Measurements) -> str:
        """Record whether a scored finalist is anomalous; return why it cannot win then, or an empty text."""
        quality = finalist.quality
        anomaly = find_anomaly(quality, trained=finalist.trained) if quality is not None else ""
        if anomaly:
            self.anomalies[finalist.id] = anomaly
        return f"it is {ANOMALOUS}" if anomaly and not self.allows_anomalies else ""

    @property
    def withheld_anomalies(self) -> Mapping[str, str]:
        """The anomalous finalists that no person allowed, each with the reason."""
        return {} if self.allows_anomalies else self.anomalies

    def evaluate(self, chosen: Iterable[Gate], candidate: Measurements) -> bool:
        """Evaluate some gates for a candidate, store their judgements, and return whether it passes all of them."""
        rows = [judgement for gate in chosen for judgement in gate.evaluate(self.limits[gate], candidate, self.source)]
        self.judgements.setdefault(candidate.id, []).extend(rows)
        return all(row.judgement is GateOutcome.HOLDS for row in rows)

    def skip(self, candidate: str, reason: str) -> None:
        """Record that the remaining gates are not evaluated for a candidate, and why."""
        rows = self.judgements.setdefault(candidate, [])
        known = {row.name for row in rows}
        rows.extend(
            gate.rule(candidate, GateOutcome.NOT_ASKED, reason) for gate in self.limits if gate.name not in known
        )


def can_win(validation: Validation, gates: GatesSection) -> bool:
    """Return whether a valid candidate may be published, and fails no gate by its validation's measurements."""
    known = Measurements(
        id=validation.candidate.id, **validation.model_dump(include={"size_bytes", *Predicted.model_fields})
    )
    rows: list[Judgement] = []
    for gate, limit in list_limits(gates).items():
        if not (gate.relative or gate.scored):
            with suppress(HoneError):  # such as one that needs measurements of the confirmation
                rows += gate.evaluate(limit, known, known)
    missed = any(row.judgement is GateOutcome.FAILS and row.measured is not None for row in rows)
    return validation.publishable and not missed


def misses_tail(latency: Sequence[Latency], gates: GatesSection) -> bool:
    """Return whether times of the race are over a limit of ``latency_p99_ms``, as far as there are calls enough."""
    if not gates.latency_p99_ms:
        return False
    rows = tail.judge(gates.latency_p99_ms, Measurements(id="", latency=tuple(latency)), Measurements(id=""))
    return any(row.judgement is GateOutcome.FAILS for row in rows)


_HIDDEN, _MANY_TIMES = 0.1, 10
"""A row is reported if it lost at least this share of the possible loss, and this many times the mean loss."""

_DECIDED: Final = frozenset({Faster.YES, Faster.NO})
_NO_CANDIDATE: Final = "no candidate could be compared with the source"
_NO_ROUTE: Final = (
    "there is no candidate: nothing that the recipe selects (toolchains, adaptors, routes) takes the model"
)


def evaluate_gates(results: GateResults, finalists: Sequence[Measurements], unpublishable: Mapping[str, str]) -> None:
    """Evaluate the gates for each finalist, fastest first, until one passes all of them.

    A finalist is only scored on the gate split if it passes every relative gate that needs no score and may be
    published (``unpublishable`` contains the reason). One that fails an absolute gate cannot win; the next one may.
    """
    for finalist in finalists:
        if reason := _evaluate(results, finalist, unpublishable.get(finalist.id)):
            results.skip(finalist.id, reason)


def _evaluate(results: GateResults, finalist: Measurements, withheld: str | None) -> str:
    """Evaluate gates for a finalist while it may win; return why the others are not evaluated, or an empty text."""
    name, relative = finalist.id, results.choose(relative=True, scored=True)
    if not results.evaluate(results.choose(relative=True, scored=False), finalist):
        return "it does not pass another gate"
    if withheld is not None:
        results.withheld[name] = withheld
        return withheld
    if results.winner is not None:
        return f"{results.winner} is faster and passes every gate"
    if any(gate.scored for gate in results.limits):
        quality = results.score(name)
        if isinstance(quality, str):
            results.judgements[name] += [gate.rule(name, GateOutcome.FAILS, quality) for gate in relative]
            return quality
        results.qualities[name] = quality
        finalist = finalist.model_copy(update={"quality": quality})
    holds = results.evaluate(relative, finalist)
    if reason := results.find_anomaly(finalist) if holds else "it does not pass another gate":
        return reason
    results.eligible.append(name)
    if results.evaluate(results.choose(relative=False), finalist):
        results.winner = name
    return ""


def find_contradiction(decision: Decision, race: RaceResult, confirmation: Confirmation, *, gates: GatesSection) -> str:
    """Return why a decision does not follow from the race, the confirmation and its own judgements, or an empty text.

    A winner is a finalist that is certainly faster, with the files that raced, and passes every gate of the recipe.
    """
    name, validations = decision.winner, race.validated
    if decision.speedup not in (None, *(one.deciding for one in confirmation.finalists)):
        return "Its speed-up does not belong to a finalist."
    if name is None or decision.verdict is not Verdict.PASS:
        rest = (decision.winner, decision.artifact, decision.verdict is Verdict.PASS)
        return "Its verdict and its winner contradict each other." if any(rest) else ""
    finalist = next((one for one in confirmation.finalists if one.id == name), None)
    if finalist is None or name not in validations:
        return f"Its winner {name} is not a finalist."
    if decision.artifact is None or validations[name].candidate.outcome.identity != decision.artifact.digest:
        return f"Its winner has other files than {name} that was measured."
    if finalist.verdict != Faster.YES or decision.speedup != finalist.deciding:
        return f"The speed-up of {name} was not confirmed."
    return _find_missed_gate(name, decision, gates)


def _find_missed_gate(name: str, decision: Decision, gates: GatesSection) -> str:
    """Return which gates a winner does not pass, or were not evaluated for it, or an empty text."""
    rows = [row for row in decision.gates if row.candidate == name]
    unasked = {gate.name for gate in list_limits(gates)} - {row.name for row in rows if not row.against}
    if any(row.judgement is not GateOutcome.HOLDS for row in rows):
        return f"Its winner {name} does not pass every gate."
    return f"Its winner {name} was not judged by {', '.join(sorted(unasked))}." if unasked else ""


def decide(results: GateResults, race: RaceResult, confirmation: Confirmation) -> tuple[Verdict, list[str]]:
    """Make the verdict, with its reasons, one sentence each.

    If the source stays, it is scored if an absolute gate requires it, and its judgements are added to the results. If
    no candidate was confirmed, or found to be worse on the search split, it is only assumed to be the best.
    """
    reasons = _list_reasons(results)
    if results.winner is not None:
        return Verdict.PASS, reasons
    if results.eligible or results.withheld_anomalies:
        missed = results.failed.issuperset(results.eligible) and not results.withheld_anomalies
        return (Verdict.FAIL if missed else Verdict.INCONCLUSIVE), reasons
    if confirmation.cut and any(finalist.verdict not in _DECIDED for finalist in confirmation.finalists):
        return Verdict.INCONCLUSIVE, [*reasons, f"{confirmation.cut}: nothing is decided"]
    confirmed = any(finalist.verdict for finalist in confirmation.finalists)
    if not (confirmed or any(validation.status is Status.DROPPED for validation in race.validations)):
        reasons += [_NO_CANDIDATE, *explain(race, confirmation)] if race.validations else [_NO_ROUTE]
        return Verdict.INCONCLUSIVE, reasons
    if doubts := results.list_undecided():
        return Verdict.INCONCLUSIVE, [*reasons, _format_undecided(*doubts[0], results, confirmation.launches)]
    requirements = (gate.asks.format(limit=results.limits[gate]) for gate in results.choose(relative=True))
    reasons.append(f"no candidate is {' and '.join(dict.fromkeys(filter(None, requirements)))}: the source model stays")
    reasons += explain(race, confirmation, withheld=results.withheld)
    if results.gates.require_improvement:
        reasons.append("the recipe requires an improvement")
    verdict = Verdict.FAIL if results.gates.require_improvement else Verdict.KEEP
    return _evaluate_source(verdict, results, reasons), reasons


def _list_reasons(results: GateResults) -> list[str]:
    """Return the results of the relative gates, the best finalist first, failed absolute gates, and doubts."""
    requiring = [gate for gate in results.choose(relative=True) if gate.asks]
    unscored, scored = ({gate.name for gate in requiring if gate.scored is it} for it in (False, True))
    speed = [row.reason for row in results.judgements.get(results.best or "", ()) if row.name in unscored]
    withheld = [f"{name} is faster, but {why}: it is not published" for name, why in results.withheld.items()]
    others = [
        row.reason
        for row in results.list_judgements()
        if (row.name in scored and row.judgement is not GateOutcome.NOT_ASKED)
        or (row.name not in scored | unscored and row.judgement in {GateOutcome.FAILS, GateOutcome.UNDECIDED})
    ]
    doubts = [f"doubtful: {quality.doubt}" for quality in results.qualities.values() if quality.doubt]
    doubts += list_reasons(results.anomalies, results.withheld_anomalies)
    doubts += filter(None, (_find_hidden_row(name, quality) for name, quality in results.qualities.items()))
    return list(dict.fromkeys([*speed, *withheld, *others, *doubts]))  # several gates may have the same reason


def _find_hidden_row(name: str, quality: Quality) -> str:
    """Return a sentence if a mean hides a row that lost far more, otherwise an empty text."""
    spread = quality.spread
    if spread is None or quality.span is None or spread.worst < _HIDDEN * quality.span:
        return ""
    if spread.worst < _MANY_TIMES * max(quality.drop.estimate, 0.0):
        return ""
    mean = f"where the mean of {quality.n} rows lost {quality.drop.estimate:.4f}"
    return f"the mean hides a row: in {quality.metric}, {name} lost {spread.worst:.4f} in one row, {mean}"


def _format_undecided(gate: Gate, rows: Sequence[Judgement], results: GateResults, launches: int) -> str:
    """Return a gate's doubt about candidates; for a speed-up, with the first candidate's reason."""
    ids = list(dict.fromkeys(row.candidate for row in rows))
    told = {"names": ", ".join(ids), "are": "are" if len(ids) > 1 else "is", "launches": launches}
    said = gate.doubt.format(limit=results.limits[gate], **told)
    return f"{said}; {rows[0].reason}" if rows[0].shape and rows[0].unit == "times" else said


def _evaluate_source(verdict: Verdict, results: GateResults, reasons: list[str]) -> Verdict:
    """Evaluate the absolute gates for the source, which stays: FAIL if it fails one."""
    absolute, source = results.choose(relative=False), results.source
    if any(gate.scored for gate in absolute):
        quality = results.score(source.id)
        source = source.model_copy(update={"quality": None if isinstance(quality, str) else quality})
    if results.evaluate(absolute, source):
        return verdict
    rows = results.judgements[source.id]
    missed, unknown = (
        [row.reason for row in rows if row.judgement is it] for it in (GateOutcome.FAILS, GateOutcome.UNDECIDED)
    )
    reasons += [*missed, *unknown]
    return Verdict.FAIL if missed or verdict is Verdict.FAIL else Verdict.INCONCLUSIVE
