"""Challenge: compare a winner with the version that is already published, by the same launches and gates.

The published version takes the source's place, and the winner is the only finalist. So an error of this comparison is
as rare as one against the source. Both must pass, so the level is not divided (an intersection-union test: R. L.
Berger, Technometrics 24, 1982).
"""

from __future__ import annotations

from typing import Final

from hone_runtime.contract.aliases import find_published
from hone_runtime.contract.registry import Registry, VersionInfo
from hone_runtime.contract.tags import DIGEST
from hone_runtime.contract.target import find_name, find_target
from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.measurement import RaceResult, Standing, Status
from kedro_hone.recipe.schema import ModelSection
from kedro_hone.search.context import RunContext
from kedro_hone.search.sources.versions import fetch

logger = open_logger(__name__)

_OF_THE_VERSION: Final = (
    "model-",
    "native-",
    "pickle-",
    "remote-code-",
    "signature-",
    "source-",
    "task-",
    "tokenizer-",
)
"""Prefixes of the slugs of errors that are caused by the version itself and would occur again."""


def challenge(
    *, context: RunContext, result: RaceResult, assessed: Decision, version: VersionInfo
) -> tuple[Artifact, RaceResult]:
    """Return the published version, as the model to measure against, and the race's result with the winner only.

    If there is no winner, or only the source is published yet, the source is returned. If the winner is already
    published, it is returned itself. If the published version cannot be opened, the source is returned, and the reason
    is in the winner's standing. Nothing is measured in these cases. A published version that is not a winner of
    kedro-hone is compared like any other: the recipe's model section describes how to make its author's class.

    Raises:
        HoneError: As raised by the registry if it is unreachable: then nothing may be published.
    """
    if assessed.verdict is not Verdict.PASS or assessed.artifact is None:
        return context.source, _select_candidate(result, None)
    published = _find_published(context, version)
    if published is None:
        logger.info(
            "challenge no comparison: the alias %s is new, or points to the source", context.recipe.publish.alias
        )
        return context.source, _select_candidate(result, None)
    registry, info = published
    if info.tags.get(DIGEST) == assessed.artifact.digest:
        return assessed.artifact, _select_candidate(result, None)
    logger.info("challenge %s by %s", info.uri, assessed.winner)
    section = ModelSection(uri=info.uri)  # a winner of kedro-hone contains the rest itself
    if not info.is_optimized:
        section = context.recipe.model.model_copy(update={"uri": info.uri})
    own = context.recipe.model_copy(update={"model": section})
    try:
        _, artifact = fetch(info.uri, registry, own, context.store, context.run)
    except HoneError as error:
        if not error.slug.startswith(_OF_THE_VERSION):
            raise
        logger.warning("challenge %s cannot be compared: %s", info.uri, error.slug)
        reason = f"{info.uri} cannot be compared: {error.what} {error.why}"
        return context.source, _select_candidate(result, None, lost=assessed.winner, reason=reason)
    return artifact, _select_candidate(result, assessed.winner)


def compare_with_published(
    *, context: RunContext, assessed: Decision, challenged: Decision, contest: RaceResult, incumbent: Artifact
) -> Decision:
    """Return the verdict on the winner: PASS only if it also beats the published version.

    Args:
        context: The context of the run.
        assessed: The verdict against the source.
        challenged: The verdict against the published version.
        contest: The race's result in the comparison; no candidate if nothing is published.
        incumbent: The published version.
    """
    alias = context.recipe.publish.alias
    if assessed.artifact is not None and assessed.artifact.digest == incumbent.digest:
        return _refuse(assessed, Verdict.KEEP, (f"{alias} points to the winner already",))
    if not any(one.status is Status.MEASURED for one in contest.standings):
        unknown = [one.reason for one in contest.standings if one.id == assessed.winner and one.status is Status.FAILED]
        kept = tuple(f"against {alias}: {reason}" for reason in unknown)
        return _refuse(assessed, Verdict.INCONCLUSIVE, (*kept, _stays(alias))) if kept else assessed
    reasons = tuple(f"against {alias}: {reason}" for reason in challenged.reasons)
    # Rows named source would be about the published version, which is not in the evidence.
    rows = (row for row in challenged.gates if row.candidate == assessed.winner)
    compared = (row.model_copy(update={"against": alias}) for row in rows)
    assessed = assessed.model_copy(update={"gates": (*assessed.gates, *compared)})
    if challenged.verdict is Verdict.PASS:
        return assessed.model_copy(update={"reasons": (*assessed.reasons, *reasons)})
    verdict = Verdict.INCONCLUSIVE if challenged.verdict is Verdict.INCONCLUSIVE else Verdict.KEEP
    return _refuse(assessed, verdict, (*reasons, _stays(alias)))


def _stays(alias: str) -> str:
    return f"the winner is not published, and {alias} is not moved"


def _refuse(assessed: Decision, verdict: Verdict, reasons: tuple[str, ...]) -> Decision:
    no_winner = {"winner": None, "artifact": None, "golden": None}
    return assessed.model_copy(update={**no_winner, "verdict": verdict, "reasons": (*assessed.reasons, *reasons)})


def _select_candidate(
    result: RaceResult, winner: str | None, *, lost: str | None = None, reason: str = ""
) -> RaceResult:
    """Return the result with one candidate to measure, or none; ``lost`` is marked as failed, with the reason."""

    def leave(one: Standing) -> Standing:
        if one.id == lost:
            return one.model_copy(update={"status": Status.FAILED, "reason": reason})
        if one.id == winner or one.status is not Status.MEASURED:
            return one.model_copy(update={"status": Status.MEASURED}) if one.id == winner else one
        return one.model_copy(update={"status": Status.DROPPED, "reason": "It was not the winner."})

    known = {"choice": None, "other_load": None}  # of the search, which has reported it
    return result.model_copy(update={"standings": tuple(map(leave, result.standings)), **known})


def _find_published(context: RunContext, version: VersionInfo) -> tuple[Registry, VersionInfo] | None:
    """Return the version that the alias points to, with its registry; None if absent, or if it is the source."""
    publish = context.recipe.publish
    target = find_target(version.uri, uri=publish.uri, name=publish.name, project=context.run.project)
    registry, name = target.registry, find_name(target, version.uri)
    # Whether the registry has aliases was checked before the model was pulled.
    uri = find_published(registry, name, publish.alias)
    info = None if uri is None else registry.resolve(uri)
    if info is None or context.run.relate(info.uri) == version.uri:
        return None
    return registry, info
