"""The verdict: what is faster for certain, no worse for certain, and what is said when the data cannot tell."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from kedro_hone.comparing.predictions import answer, score_answers, score_source
from kedro_hone.comparing.setting import Setting, explain_source_failure
from kedro_hone.comparing.timings import SOURCE
from kedro_hone.core.stats import Faster, share_level
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import (
    Confirmation,
    Decision,
    Finalist,
    Quality,
    RaceResult,
    Status,
    Validation,
    Verdict,
)
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.values.samples import GATE, Samples
from kedro_hone.recipe.schema import Recipe
from kedro_hone.sources.catalogue import describe_baseline

logger = logging.getLogger(__name__)


def gate(
    *,
    result: RaceResult,
    confirmation: Confirmation,
    source: Artifact,
    samples: Samples,
    recipe: Recipe,
    workplace: Workplace,
) -> Decision:
    """Decide.

    The finalists that are faster are taken in the order of their speed; the first that holds the quality gate on the
    gate split wins. The level of the quality intervals is shared among the finalists, so that looking at several does
    not make a false pass more likely.

    Args:
        result: The race, with the artifacts, and for what was not tried.
        confirmation: The finalists.
        source: The source model.
        samples: The prepared data; the gate split is read here and nowhere else.
        recipe: The recipe.
        workplace: Where the run works.

    Returns:
        The verdict, with its reasons.
    """
    setting = Setting(source=source, samples=samples, recipe=recipe, workplace=workplace)
    found = result.validated
    reasons: list[str] = []
    eligible = _find_eligible(confirmation, found, reasons)
    qualities, workers = _measure_quality(eligible, found, setting, reasons)
    limit = setting.recipe.gates.drop
    winner = next((f for f in eligible if f.id in qualities and holds(qualities[f.id], limit)), None)
    verdict = _decide(
        winner,
        qualities,
        confirmation=confirmation,
        compared=was_compared(confirmation, result.validations),
        recipe=setting.recipe,
        reasons=reasons,
    )
    verdict = _check_absolute(
        verdict, winner, qualities, confirmation=confirmation, recipe=setting.recipe, reasons=reasons
    )
    if result.budget_ended:
        reasons.append("the race's budget was spent: see what was not tried")
    logger.info("verdict   %s: %s", verdict, "; ".join(reasons))
    outcome = found[winner.id].candidate.outcome if winner else None
    return Decision(
        verdict=verdict,
        reasons=tuple(reasons),
        winner=winner.id if winner else None,
        artifact=outcome if isinstance(outcome, Artifact) else None,
        speedup=winner.deciding if winner else None,
        quality=tuple((name, quality) for name, quality in qualities.items() if name != SOURCE),
        baseline=describe_baseline(source, threads=recipe.thread_count),
        workers=workers,
    )


def _find_eligible(confirmation: Confirmation, found: dict[str, Validation], reasons: list[str]) -> list[Finalist]:
    """Return the finalists that are faster and may be published, fastest first."""
    faster = [finalist for finalist in confirmation.finalists if finalist.verdict == Faster.YES]
    barred = [finalist.id for finalist in faster if not found[finalist.id].publishable]
    reasons.extend(f"{name} is faster, but its licence is for evaluation only: it is not published" for name in barred)
    return [finalist for finalist in faster if found[finalist.id].publishable]


def _measure_quality(
    finalists: list[Finalist], found: dict[str, Validation], setting: Setting, reasons: list[str]
) -> tuple[dict[str, Quality], int]:
    """Score the faster finalists on the gate split in order, until one holds; the source too, if a gate asks for it.

    Returns:
        The qualities by the finalist's id, and how many worker processes were launched.
    """
    gates, split = setting.recipe.gates, setting.samples.splits[GATE]
    artifacts = {f.id: o for f in finalists if isinstance(o := found[f.id].candidate.outcome, Artifact)}
    qualities: dict[str, Quality] = {}
    workers = 0
    if not artifacts and gates.quality is None:
        return qualities, workers
    confidence = 1 - share_level(1 - gates.confidence, finalists=setting.recipe.confirm.finalists)
    with setting.workplace.store.workspace() as scratch:
        reference = scratch / "source.npz"
        answered = answer(setting.source, name=SOURCE, feeds=Path(split.feeds), output=reference, setting=setting)
        workers += 1
        if isinstance(answered, Failed):
            raise explain_source_failure(answered, "on the gate split")
        if gates.quality is not None:
            qualities[SOURCE] = score_source(reference, split, setting).judge(GATE, gates.drop)
        for name, artifact in artifacts.items():
            outputs = scratch / "candidate.npz"
            answered = answer(artifact, name=name, feeds=Path(split.feeds), output=outputs, setting=setting)
            workers += 1
            if isinstance(answered, Failed):
                reasons.append(f"{name} failed on the gate split: {answered.reason}")
                continue
            found_score = score_answers(
                {name: outputs}, reference=reference, split=split, setting=setting, confidence=confidence
            )[name]
            if isinstance(found_score, str):
                reasons.append(f"{name} cannot be scored on the gate split: {found_score}")
                continue
            qualities[name] = found_score.judge(GATE, gates.drop)
            reasons.append(_explain_quality(name, qualities[name], gates.drop))
            if holds(qualities[name], gates.drop):
                break
    return qualities, workers


def holds(quality: Quality, limit: float) -> bool:
    """Return whether the drop is under the limit for certain."""
    return quality.drop.high < limit


def fails(quality: Quality, limit: float) -> bool:
    """Return whether the drop is over the limit for certain."""
    return quality.drop.low > limit


def _explain_quality(name: str, quality: Quality, limit: float) -> str:
    judged = "holds" if holds(quality, limit) else "fails" if fails(quality, limit) else "cannot be proved to hold"
    return (
        f"{name} {judged} the quality gate: {quality.metric} {quality.source:.4f} to {quality.candidate:.4f} on "
        f"{quality.n} rows, a drop of at most {quality.drop.high:.4f} where {limit:g} is allowed"
    )


def was_compared(confirmation: Confirmation, validations: Iterable[Validation]) -> bool:
    """Return whether any candidate was compared with the source: confirmed, or found to be worse on the search split.

    Where all were refused or failed, that the source is best is a guess.
    """
    confirmed = any(finalist.verdict for finalist in confirmation.finalists)
    return confirmed or any(validation.status is Status.DROPPED for validation in validations)


def _decide(
    winner: Finalist | None,
    qualities: dict[str, Quality],
    *,
    confirmation: Confirmation,
    compared: bool,
    recipe: Recipe,
    reasons: list[str],
) -> Verdict:
    limit, asked = recipe.gates.drop, f"{recipe.gates.speedup:g} times as fast"
    if winner is not None and winner.deciding is not None:
        ratio, shape, launches = winner.deciding.ratio, winner.deciding.shape, winner.deciding.launches
        reasons.insert(
            0,
            f"{winner.id} is {ratio.estimate:.2f} times as fast at {shape} "
            f"({ratio.low:.2f} to {ratio.high:.2f}, {launches} launches)",
        )
        return Verdict.PASS
    if not compared:
        reasons.append("no candidate could be compared with the source: each was refused, failed or was not tried")
        return Verdict.INCONCLUSIVE
    unproved = [n for n, q in qualities.items() if n != SOURCE and not holds(q, limit) and not fails(q, limit)]
    undecided = [finalist.id for finalist in confirmation.finalists if finalist.verdict == Faster.UNDECIDED]
    if unproved:
        reasons.append(f"the gate split has too few rows to tell whether {', '.join(unproved)} is good enough")
        return Verdict.INCONCLUSIVE
    if undecided:
        reasons.append(f"{confirmation.launches} launches cannot tell whether {', '.join(undecided)} is {asked}")
        return Verdict.INCONCLUSIVE
    reasons.append(f"no candidate is {asked} and good enough: the source model stays")
    if recipe.gates.require_improvement:
        reasons.append("the recipe requires an improvement")
        return Verdict.FAIL
    return Verdict.KEEP


def _check_absolute(
    verdict: Verdict,
    winner: Finalist | None,
    qualities: dict[str, Quality],
    *,
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
    best = qualities.get(winner.id if winner else SOURCE)
    asked = recipe.gates.quality
    if asked is not None and best is not None and best.candidate < asked:
        missed.append(f"{best.metric} is {best.candidate:.4f}, where {asked:g} is asked for")
    reasons.extend(missed)
    return Verdict.FAIL if missed else verdict
