"""The verdict: what is faster for certain, no worse for certain, and what is said when the data cannot tell."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from kedro_hone.core.measurement import Confirmation, Decision, Finalist, Quality, RaceResult, Validation, Verdict
from kedro_hone.core.samples import GATE, Samples
from kedro_hone.core.stats import Faster, share_level
from kedro_hone.core.types import Artifact, Failed
from kedro_hone.core.workplace import Workplace
from kedro_hone.nodes.race import SOURCE
from kedro_hone.nodes.scoring import score
from kedro_hone.nodes.validate import answer, read_metric
from kedro_hone.recipe import Recipe, read_recipe

logger = logging.getLogger(__name__)


def gate(
    result: RaceResult,
    confirmation: Confirmation,
    source: Artifact,
    samples: Samples,
    parameters: dict[str, Any],
    workplace: Workplace,
    **validations: Validation,
) -> Decision:
    """Decide.

    The finalists that are faster are taken in the order of their speed; the first that holds the quality gate on the
    gate split wins. The level of the quality intervals is shared among the finalists, so that looking at several does
    not make a false pass more likely.

    Args:
        result: The race, for what was not tried.
        confirmation: The finalists.
        source: The source model.
        samples: The prepared data; the gate split is read here and nowhere else.
        parameters: The recipe.
        workplace: Where the run works.
        **validations: What ``validate`` found, for the artifacts.

    Returns:
        The verdict, with its reasons.
    """
    recipe = read_recipe(parameters)
    found = {v.candidate.id: v for v in validations.values()}
    faster = [f for f in confirmation.finalists if f.verdict == Faster.YES]
    publishable = [f for f in faster if found[f.id].publishable]
    reasons = [
        f"{f.id} is faster, but its licence is for evaluation only: it is not published" for f in faster if f not in publishable
    ]
    qualities = _measure_quality(publishable, len(confirmation.finalists), found, source, samples, recipe, workplace, reasons)
    winner = next((f for f in publishable if f.id in qualities and _holds(qualities[f.id], recipe)), None)
    undecided = [f.id for f in confirmation.finalists if f.verdict == Faster.UNDECIDED]
    unproved = [name for name, quality in qualities.items() if not _holds(quality, recipe) and not _fails(quality, recipe)]
    verdict = _decide(winner, undecided, unproved, confirmation, recipe, reasons)
    outcome = found[winner.id].candidate.outcome if winner else None
    artifact = outcome if isinstance(outcome, Artifact) else None
    verdict = _check_absolute(verdict, winner, qualities, confirmation, recipe, reasons)
    if result.budget_ended:
        reasons.append("the race's budget was spent: see what was not tried")
    logger.info("verdict   %s: %s", verdict, "; ".join(reasons))
    return Decision(
        verdict=verdict,
        reasons=tuple(reasons),
        winner=winner.id if winner else None,
        artifact=artifact,
        speedup=winner.deciding if winner else None,
        quality=tuple(qualities.items()),
        baseline=describe_baseline(source, recipe),
    )


def describe_baseline(source: Artifact, recipe: Recipe) -> str:
    """Return one sentence that says what everything was measured against."""
    how = {
        "pytorch-module": "the author's class in eager PyTorch (eval, inference mode)",
        "pytorch": "the exported program in eager PyTorch",
        "onnx": "ONNX Runtime with its default settings",
    }.get(source.format, f"{source.runtime} on {source.format}")
    return f"{how}, {recipe.thread_count} threads"


def _measure_quality(
    finalists: list[Finalist],
    shared: int,
    found: dict[str, Validation],
    source: Artifact,
    samples: Samples,
    recipe: Recipe,
    workplace: Workplace,
    reasons: list[str],
) -> dict[str, Quality]:
    """Score the faster finalists on the gate split in order, until one holds."""
    qualities: dict[str, Quality] = {}
    if not finalists:
        return qualities
    split = samples.splits[GATE]
    confidence = 1 - share_level(1 - recipe.gates.confidence, finalists=shared)
    with workplace.store.workspace() as scratch:
        reference = scratch / "source.npz"
        failed = answer(source, name=SOURCE, feeds=Path(split.feeds), output=reference, recipe=recipe, workplace=workplace)
        if failed is not None:
            raise RuntimeError(f"the source model failed on the gate split: {failed.reason}")
        for number, finalist in enumerate(finalists):
            outcome = found[finalist.id].candidate.outcome
            outputs = scratch / f"{number}.npz"
            fault = (
                answer(outcome, name=finalist.id, feeds=Path(split.feeds), output=outputs, recipe=recipe, workplace=workplace)
                if isinstance(outcome, Artifact)
                else None
            )
            if isinstance(fault, Failed):
                reasons.append(f"{finalist.id} failed on the gate split: {fault.reason}")
                continue
            quality = score(
                {finalist.id: outputs},
                reference=reference,
                split=split,
                samples=samples,
                source=source,
                metric=read_metric(recipe),
                confidence=confidence,
                workplace=workplace,
            )[finalist.id].judge(GATE, recipe.gates.drop)
            qualities[finalist.id] = quality
            reasons.append(_explain_quality(finalist.id, quality, recipe))
            if _holds(quality, recipe):
                break
    return qualities


def _holds(quality: Quality, recipe: Recipe) -> bool:
    return quality.drop.high < recipe.gates.drop


def _fails(quality: Quality, recipe: Recipe) -> bool:
    return quality.drop.low > recipe.gates.drop


def _explain_quality(name: str, quality: Quality, recipe: Recipe) -> str:
    answer_ = "holds" if _holds(quality, recipe) else "fails" if _fails(quality, recipe) else "cannot be proved on"
    return (
        f"{name} {answer_} the quality gate: {quality.metric} {quality.source:.4f} to {quality.candidate:.4f} on "
        f"{quality.n} rows, a drop of at most {quality.drop.high:.4f} where {recipe.gates.drop:g} is allowed"
    )


def _decide(
    winner: Finalist | None,
    undecided: list[str],
    unproved: list[str],
    confirmation: Confirmation,
    recipe: Recipe,
    reasons: list[str],
) -> Verdict:
    if winner is not None and winner.deciding is not None:
        ratio = winner.deciding.ratio
        reasons.insert(
            0,
            f"{winner.id} is {ratio.estimate:.2f} times as fast at {winner.deciding.shape} "
            f"({ratio.low:.2f} to {ratio.high:.2f}, {winner.deciding.launches} launches)",
        )
        return Verdict.PASS
    if unproved:
        reasons.append(f"the gate split has too few rows to tell whether {', '.join(unproved)} is good enough")
        return Verdict.INCONCLUSIVE
    if undecided:
        launches = confirmation.launches
        reasons.append(f"{', '.join(undecided)}: {launches} launches cannot tell whether it is {recipe.gates.speedup:g} times as fast")
        return Verdict.INCONCLUSIVE
    reasons.append(f"no candidate is {recipe.gates.speedup:g} times as fast and good enough: the source model stays")
    if recipe.gates.require_improvement:
        reasons.append("the recipe requires an improvement")
        return Verdict.FAIL
    return Verdict.KEEP


def _check_absolute(
    verdict: Verdict,
    winner: Finalist | None,
    qualities: dict[str, Quality],
    confirmation: Confirmation,
    recipe: Recipe,
    reasons: list[str],
) -> Verdict:
    """FAIL when the best there is misses an absolute gate: the winner, or the source where it stays."""
    if verdict is Verdict.INCONCLUSIVE:
        return verdict
    latency = {row.shape: row.p50_ms for row in (winner.latency if winner else confirmation.source_latency)}
    missed = [
        f"{shape} takes {latency[shape]:.3f} ms, where {limit:g} ms is allowed"
        for shape, limit in recipe.gates.latency_ms.items()
        if latency.get(shape, 0.0) > limit
    ]
    quality = qualities.get(winner.id) if winner else next(iter(qualities.values()), None)
    if recipe.gates.quality is not None and quality is not None:
        value = quality.candidate if winner else quality.source
        if value < recipe.gates.quality:
            missed.append(f"{quality.metric} is {value:.4f}, where {recipe.gates.quality:g} is asked for")
    reasons.extend(missed)
    return Verdict.FAIL if missed else verdict
