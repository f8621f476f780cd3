"""The verdict: a finalist that is provably faster and no less accurate, or why none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.composite import read_parts
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.measurement import (
    BUDGET,
    Choice,
    ConfirmationResult,
    Finalist,
    Quality,
    RaceResult,
    Validation,
)
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import GATE, Predicted, Reference
from kedro_hone.core.gates import Measurements
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.search.comparison.agreement import Fault, compare_outputs
from kedro_hone.search.comparison.disagreement import find_disagreement
from kedro_hone.search.context import RunContext, explain_source_failure
from kedro_hone.search.gates.load import find_load, format_wait
from kedro_hone.search.plan.routes import must_agree
from kedro_hone.search.race.timings import SOURCE
from kedro_hone.search.scores import has_labels, predict, score_predictions, score_source
from kedro_hone.search.validation.probe_outputs import choose_shares
from kedro_hone.search.verdict.failures import list_shared
from kedro_hone.search.verdict.golden import GoldenRows, cut_golden, store_golden
from kedro_hone.search.verdict.verdict import GateResults, decide, evaluate_gates
from kedro_hone.sources.catalogue import describe_baseline

logger = open_logger(__name__)

DRAWN = "the inputs were drawn at random, since there are no data: nothing is proved, and nothing is published"
"""The first reason of a draft."""


def gate(
    *, context: RunContext, result: RaceResult, confirmation: ConfirmationResult, reference: Reference
) -> Decision:
    """Decide which finalist wins, if any, with the reasons and the judgement of each gate on each finalist.

    The finalists are checked in the order of their speed; the first that passes all gates wins. The level of the
    quality intervals is divided among them (multiple comparisons), so that checking several does not make a false pass
    more likely. The level of a person's choice is divided among such choices. The gate split is only read here.
    """
    source, recipe, found = context.source, context.recipe, result.validated
    finalists = {finalist.id: finalist for finalist in confirmation.finalists}
    itself = Measurements(
        id=SOURCE,
        latency=confirmation.source_latency,
        size_bytes=context.store.measure(source),
        other_load=confirmation.other_load,
        **reference.model_dump(include={*Predicted.model_fields}),
    )
    with context.store.workspace() as scratch:
        outcomes, chosen = {name: one.candidate.outcome for name, one in found.items()}, result.choice
        shared = share_confidence(recipe.gates.confidence, finalists=recipe.confirm.finalists)
        scorer = _Scorer(
            context,
            scratch,
            outcomes,
            level=chosen.confidence if chosen else shared,
            golden_rows=cut_golden(context, scratch),
            noise=context.locate_noise(reference),
            exact={name: must_agree(one.candidate.route, source) for name, one in found.items()},
        )
        allowed = "anomalous" in recipe.publish.allow
        results = GateResults(gates=recipe.all_gates, source=itself, score=scorer.score, allows_anomalies=allowed)
        catalogue = read_catalogue()  # current: the licence in the validation may be an earlier run's
        restricted = (name for name in finalists if catalogue.find_restricted(found[name].candidate))
        withheld = dict.fromkeys(restricted, "its licence is for evaluation only")
        measured = [_gather(one, found[name], load=confirmation.other_load) for name, one in finalists.items()]
        evaluate_gates(results, measured, withheld)
        verdict, reasons = decide(results, result, confirmation)
        winner, golden = results.winner, None
        if winner in scorer.outputs:
            golden = scorer.store_golden(winner, largest_error=found[winner].largest_error or 0.0)
    if winner is not None:
        reasons += [f"{winner} has a limit: {limit}" for limit in found[winner].limits]
    if verdict is Verdict.PASS:
        reasons += _list_waits(results)
    else:
        shared_failures = list_shared(result.validations)
        reasons = [*reasons, *shared_failures] if finalists else [*shared_failures, *reasons]
    reasons += filter(None, (format_choice(result.choice), format_untried(result, context.run)))
    if context.samples.drawn:  # such rows are not the user's: no result on them proves anything
        verdict, reasons, winner, golden = Verdict.DRAFT, [DRAWN, *reasons], None, None
    logger.info("verdict   %s: %s", verdict, "; ".join(reasons))
    outcome = found[winner].candidate.outcome if winner else None
    return Decision(
        verdict=verdict,
        reasons=tuple(reasons),
        winner=winner,
        artifact=outcome if isinstance(outcome, Artifact) else None,
        speedup=finalists[results.reported].deciding if results.reported else None,
        quality=tuple(results.qualities.values()),
        gates=results.list_judgements(),
        baseline=describe_baseline(source, threads=recipe.thread_count),
        golden=golden,
        workers=scorer.workers,
    )


def _list_waits(results: GateResults) -> list[str]:
    """Return a sentence that the winner waits for a quiet machine, if it does."""
    noise = find_load(results.judgements.get(results.winner or "", ()))
    return [] if noise is None else [format_wait(noise)]


def combine_worst(name: str, qualities: Sequence[Quality]) -> Quality:
    """Return the quality to judge for a candidate that was scored in several ways: the largest drop of each metric.

    All of them must pass, so the level is not divided: an intersection-union test (R. L. Berger, "Multiparameter
    hypothesis testing and acceptance sampling", Technometrics 24, 1982).
    """
    worst = max(qualities, key=lambda one: one.drop.high)
    columns = zip(*(one.others for one in qualities), strict=True)
    others = tuple(max(column, key=lambda one: one.drop.high) for column in columns)
    slices = tuple(
        max(row, key=lambda one: one.drop.high) for row in zip(*(one.slices for one in qualities), strict=True)
    )
    return worst.model_copy(update={"id": name, "others": others, "slices": slices})


def _gather(finalist: Finalist, validation: Validation, *, load: float | None) -> Measurements:
    return Measurements(
        other_load=load,
        trained=isinstance(validation.candidate.outcome, Artifact) and validation.candidate.outcome.is_trained,
        faster=finalist.verdict,
        speedup=finalist.deciding,
        **finalist.model_dump(include={"id", "speedups", "latency"}),
        **validation.model_dump(include={"size_bytes", *Predicted.model_fields}),
    )


def format_choice(choice: Choice | None) -> str:
    """Return a sentence that a person chose the candidate, or an empty string."""
    if choice is None:
        return ""
    many = "which is the first choice" if choice.number == 1 else f"after {choice.number - 1} other choices"
    return (
        f"{choice.candidate} was chosen by a person from {choice.offered} raced candidates, {many} on "
        f"the same data: it is judged with confidence {choice.confidence:.2%}"
    )


def format_untried(result: RaceResult, run: RunFolder) -> str:
    """Return how many candidates were not tried, or an empty string; those that were expected to be slower apart.

    A larger budget tries more of those that were not built or validated, unless a person stopped the search. If a
    faster candidate ended it, only an unlimited budget does. The same applies if a person chose, since that search was
    an earlier run's. The race has a separate limit.
    """
    end = run.read_end()
    built = [one for one in result.validations if one.slug == BUDGET]
    slower = [one for one in built if end and end in one.reason]
    untried = len(built) - len(slower) + [one.slug for one in result.standings].count(BUDGET)
    budget = "`hone.budget: thorough`" if end or result.choice else "a larger hone.budget"
    more = f", and {budget} tries more" if len(built) > len(slower) and not run.is_stopped() else ""
    clauses = [f"{_count(len(slower))} left out, being slower by expectation: {end}"] if slower else []
    clauses += [f"{_count(untried)} not tried: the report has the reasons{more}"] if untried else []
    return "; ".join(clauses)


def _count(number: int) -> str:
    return "1 candidate was" if number == 1 else f"{number} candidates were"


@dataclass
class _Scorer:
    """Scores candidates and the source on the gate split; the source's predictions are made once, when first needed."""

    context: RunContext
    scratch: Path
    outcomes: dict[str, Any]
    level: float
    golden_rows: GoldenRows | None = None
    noise: Path | None = None  # which numbers of a row have the rounding error of larger ones
    exact: Mapping[str, bool] = field(default_factory=dict)  # whether a candidate's route only converts
    workers: int = 0
    outputs: dict[str, dict[str, Path]] = field(default_factory=dict)  # by scored candidate, and by its parts

    def score(self, name: str) -> Quality | str:
        """Return a candidate's metric on the gate split, or why it could not be scored."""
        context, split, reference = self.context, self.context.samples.splits[GATE], self.scratch / "source.npz"
        if not reference.exists() and (failed := self._predict(SOURCE, context.source, reference)):
            raise explain_source_failure(failed, "on the gate split")
        if name == SOURCE:
            return score_source(reference, split, context)
        number, outputs = len(self.outputs), dict[str, Path]()
        allowed = choose_shares(context, exact=self.exact.get(name, False))
        for one in (name, *self._list_parts(name)):
            outputs[one] = self.scratch / f"candidate{number}-{len(outputs)}.npz"
            if failed := self._predict(one, self.outcomes[one], outputs[one]):
                return f"{one} failed on the gate split: {failed.reason}"
        self.outputs[name] = outputs
        scores = score_predictions(outputs, reference=reference, split=split, context=context, confidence=self.level)
        for one, found in scores.items():
            if isinstance(found, str):
                return f"{one} cannot be scored on the gate split: {found}"
        labelled = has_labels(split, context)
        worst = combine_worst(name, [one for one in scores.values() if isinstance(one, Quality)])
        for one, path in outputs.items():
            feeds, outcome = context.locate(split.feeds), self.outcomes[one]
            compared = compare_outputs(
                path, reference=reference, feeds=feeds, outputs=outcome.outputs, noise=self.noise
            )
            if isinstance(compared, Fault):
                return f"{one} cannot be compared: {compared.explain('the gate split')}"
            if reason := find_disagreement(compared, scored=worst.scored, labelled=labelled, **allowed):
                return f"{one} does not agree with the source on the gate split: {reason}"
        return worst

    def store_golden(self, name: str, *, largest_error: float) -> str | None:
        """Store the golden rows of a scored candidate; None if the recipe requires none."""
        if self.golden_rows is None:
            return None
        paths = [_name_golden(path) for path in self.outputs[name].values()]
        return store_golden(self.golden_rows, paths, self.context, largest_error=largest_error)

    def _list_parts(self, name: str) -> list[str]:
        """Return the candidates that are the parts of a composite; an empty list for any other candidate.

        Its calls here have one size, which only one part computes: so each part is judged on all rows separately.
        """
        outcome = self.outcomes[name]
        return [part.candidate for part in read_parts(outcome)] if isinstance(outcome, Artifact) else []

    def _predict(self, name: str, artifact: Artifact, path: Path) -> Failed | None:
        self.workers += 1
        context, feeds = self.context, self.context.locate(self.context.samples.splits[GATE].feeds)
        runs = [(feeds, path, context.largest_batch)]
        if self.golden_rows is not None and name != SOURCE:
            runs.append(self.golden_rows.make_run(artifact, _name_golden(path)))
        found = predict(artifact, name=name, runs=runs, context=context)
        return found if isinstance(found, Failed) else None


def _name_golden(outputs: Path) -> Path:
    """Return the file of the outputs for the golden rows, next to those for the split."""
    return outputs.with_name(f"{outputs.stem}-golden.npz")
