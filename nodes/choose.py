"""Choose: confirm and judge a candidate that a person chose, instead of the race's fastest."""

from __future__ import annotations

import difflib

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import RACED, Choice, RaceResult, Standing, Status
from kedro_hone.core.stats.levels import spend_on_choice
from kedro_hone.core.store.choices import count_choice
from kedro_hone.search.context import RunContext

logger = open_logger(__name__)


def choose(*, context: RunContext, result: RaceResult) -> RaceResult:
    """Return the race's result with the recipe's ``choose`` as the only candidate to measure.

    Nothing is built or raced. The choice is counted before anything is measured, so that any number of choices keeps
    the probability of a false pass below the recipe's limit (``spend_on_choice``).

    Raises:
        HoneError: ``candidate-unknown``: there is no such candidate, or it was not raced; ``store-missing``: its files
            are not in the store any more.
    """
    offered = [one for one in result.standings if one.status in RACED and _find_artifact(one.id, result)]
    name = context.recipe.choose or ""
    chosen = next((one for one in offered if one.id == name), None)
    artifact = _find_artifact(name, result)
    if chosen is None or artifact is None:
        raise _explain_unknown(name, [one.id for one in offered], result)
    context.store.locate(artifact)
    judged = f"{context.source.digest} {context.samples.digest}"
    number = count_choice(context.store.notes, judged=judged, run=context.run.run_id, candidate=name)
    confidence = spend_on_choice(context.recipe.gates.confidence, number=number)
    logger.info(
        "chosen    %s of %d candidates: choice %d on this data, confidence %.3g %%",
        name,
        len(offered),
        number,
        100 * confidence,
    )
    others = [_leave(one, name) for one in result.standings if one is not chosen]
    standing = chosen.model_copy(update={"status": Status.MEASURED, "reason": ""})
    choice = Choice(candidate=name, number=number, offered=len(offered), confidence=confidence)
    return result.model_copy(update={"standings": (standing, *others), "choice": choice})


def _find_artifact(name: str, result: RaceResult) -> Artifact | None:
    """Return the artifact of a valid candidate; None for any other."""
    validation = result.validated.get(name)
    if validation is None or validation.status is not Status.MEASURED:
        return None
    return validation.candidate.outcome if isinstance(validation.candidate.outcome, Artifact) else None


def _leave(standing: Standing, chosen: str) -> Standing:
    if standing.status is not Status.MEASURED:
        return standing
    return standing.model_copy(update={"status": Status.DROPPED, "reason": f"{chosen} was chosen in its place."})


def _explain_unknown(name: str, offered: list[str], result: RaceResult) -> HoneError:
    results = {one.candidate.id: one.reason or one.status.value for one in result.validations}
    results |= {one.id: one.reason or one.status.value for one in result.standings}
    if not name:
        what, why = (
            "The recipe names no candidate.",
            "The recipe has no `choose`, which `kedro-hone choose CANDIDATE` sets.",
        )
    elif name in results:
        what, why = f"{name} cannot be chosen.", f"It has no result in the race: {results[name]}"
    else:
        near = difflib.get_close_matches(name, offered, n=3, cutoff=0.4)
        what = f"There is no candidate {name!r}."
        why = f"The last race has {', '.join(near or offered[:5]) or 'none that can be chosen'}."
    hint = "Use the id of a candidate that the report lists as measured or dropped early."
    return HoneError("candidate-unknown", what, why=why, hint=hint)
