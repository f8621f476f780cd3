"""Validation: each candidate before the race, by its saved files, opened in a new process, at several batch sizes.

This detects silently wrong results. Examples are a quantized network that is right at one batch size and wrong at
another, or a package that returns the wrong number of rows. Every candidate predicts the whole search split at every
batch size of the recipe, and at an odd one if it takes any. Then it predicts rows cut to each shape with other sizes
than the data. The worst result counts. A model of Transformers is also tried at odd lengths.

Outputs that no metric reads must agree with the source's; a candidate that only converts must agree in every output and
row. The last runs are probes, whose rows may be in no split. A candidate that returns different numbers for them is
dropped. If it raises although the source does not, the report mentions that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.composite import COMPOSITE
from hone_runtime.values.digest import digest_json
from hone_runtime.values.measurement import BUDGET, Quality, Status, Validation
from hone_runtime.values.outcome import Candidate, Failed, FailureClass, Refused
from hone_runtime.values.samples import SEARCH, Reference
from kedro_hone.core.store.steps import CRASHES
from kedro_hone.search.comparison.crops import crop_search
from kedro_hone.search.context import RunContext
from kedro_hone.search.plan.budget import Phase, bound_validation, start_budget
from kedro_hone.search.plan.routes import must_agree
from kedro_hone.search.scores import has_labels, predict
from kedro_hone.search.steps.runtimes import identify_runtime
from kedro_hone.search.validation.judgement import find_conflict, find_fall, find_worst, find_wrong
from kedro_hone.search.validation.probe_outputs import Found, Probing, choose_shares, list_flips
from kedro_hone.search.validation.steadiness import excuse_rows
from kedro_hone.search.validation.trials import Trial, compare_trial, compare_trials, plan_trials, score_trials
from kedro_hone.search.validation.unscored import list_unscored

logger = open_logger(__name__)

VERSION = 18
"""Increase it if the code validates differently; it is part of a validation's key in the store."""


def validate_candidate(
    named: Candidate, context: RunContext, *, reference: Reference, expected: float | None = None, insists: bool = False
) -> Validation:
    """Check the result of a candidate's route; if it may not race, the validation contains the reason.

    Args:
        named: The candidate, with the outcome of its route.
        context: The context of the run.
        reference: The reference to compare with.
        expected: The expected seconds, if known: it does not start if fewer are left.
        insists: Whether it is validated even if little of the budget is left, like a composite, which is made from the
            best candidates of the search.
    """
    outcome, judge = named.outcome, partial(Validation, candidate=named, since=reference.since)
    if not isinstance(outcome, Artifact):
        return _report_unbuilt(outcome, judge)
    judge, exact = partial(judge, **_find_terms(named, outcome)), must_agree(named.route, context.source)
    key = _make_key(outcome, reference, context, exact=exact)
    known = context.store.read_value(key, Validation.model_validate)
    insists = insists or outcome.format == COMPOSITE
    spent = None if insists else start_budget(context).find_reason(Phase.VALIDATE, expected)
    if known is not None and (spent is not None or not _may_pass_now(known, context)):
        return _adopt(known, judge)
    if spent is not None:
        logger.info("not tried %s: %s", named.id, spent)
        return judge(status=Status.NOT_TRIED, slug=BUDGET, reason=spent)
    started, stopped = time.monotonic(), bound_validation(context, insists=insists)
    checked = _check(outcome, reference, context, exact=exact, judge=judge, stopped=stopped)
    tries = 1 if known is None else known.tries + 1
    took = {"run": context.run.run_id, "seconds": time.monotonic() - started, "tries": tries}
    if checked.slug == FailureClass.KILLED and (reason := stopped()):
        return judge(status=Status.NOT_TRIED, slug=BUDGET, reason=reason, **took)
    validation = checked.model_copy(update=took)
    _record(validation, key, context)
    return validation


def _report_unbuilt(outcome: Refused | Failed, judge: partial[Validation]) -> Validation:
    """Return the validation of a candidate whose route has no result."""
    reason = f"{outcome.by}: {outcome.reason}"
    if isinstance(outcome, Failed):
        return judge(status=Status.FAILED, slug=outcome.failure, reason=reason)
    status = Status.NOT_TRIED if outcome.slug == BUDGET else Status.REFUSED
    return judge(status=status, slug=outcome.slug, reason=reason)


def _find_terms(named: Candidate, outcome: Artifact) -> dict[str, Any]:
    """Return whether the licences of a candidate's toolchains let it be published, and the note on them."""
    restricted = read_catalogue().find_restricted(named)
    note = (restricted or read_catalogue().find_toolchain(str(outcome.runtime))).note
    return {"publishable": restricted is None, "note": note}


def _make_key(outcome: Artifact, reference: Reference, context: RunContext, *, exact: bool) -> str:
    """Return the key of a validation in the store: everything that it depends on."""
    gates, compared = context.recipe.gates, [outcome.digest, reference.digest, context.samples.digest]
    settings = [gates.drop, gates.drops, gates.confidence, gates.conversion, gates.unscored, context.recipe.seed, exact]
    return digest_json(["validation", VERSION, *compared, *settings, *identify_runtime(outcome, context.recipe)])


def _may_pass_now(known: Validation, context: RunContext) -> bool:
    """Return whether a candidate whose validation is stored may be tried again: it crashed, in another run."""
    return known.slug == FailureClass.CRASH and known.tries < CRASHES and known.run != context.run.run_id


def _adopt(known: Validation, judge: partial[Validation]) -> Validation:
    """Return a stored validation as that of this candidate.

    The same artifact may have been validated as another candidate, and under another licence.
    """
    quality = known.quality and known.quality.model_copy(update={"id": judge.keywords["candidate"].id})
    return known.model_copy(update={**judge.keywords, "quality": quality})


def _record(validation: Validation, key: str, context: RunContext) -> None:
    """Write a validation to the run's events and the log, and to the store unless its failure is transient."""
    candidate, noted = validation.candidate.id, validation.model_dump(include={"status", "reason", "seconds"})
    context.run.note("validation", candidate=candidate, **noted)
    logger.info("%-9s %s%s", validation.status, candidate, f": {validation.reason}" if validation.reason else "")
    if not (validation.slug in set(FailureClass) and FailureClass(validation.slug).transient):
        context.store.write_value(key, validation.model_dump(mode="json"))


def validate_until_valid(
    validations: Sequence[Validation], context: RunContext, *, reference: Reference
) -> list[Validation]:
    """Validate, in order, the candidates left out because of the budget, until one is valid that may be published.

    Without any there is no verdict. If one is already valid, or a person ended the search, the validations are returned
    unchanged.
    """
    found = {one.candidate.id: one for one in validations}
    for one in validations:
        valid = any(each.status is Status.MEASURED and each.publishable for each in found.values())
        if valid or context.run.is_stopped():
            break
        if one.slug == BUDGET and isinstance(one.candidate.outcome, Artifact):
            made = validate_candidate(one.candidate, context, reference=reference, insists=True)
            found[one.candidate.id] = made.model_copy(update={"made_from": one.made_from})
    return [*found.values()]


def _check(
    artifact: Artifact,
    reference: Reference,
    context: RunContext,
    *,
    exact: bool,
    judge: partial[Validation],
    stopped: Callable[[], object],
) -> Validation:
    """Compare the outputs of a candidate's artifact, and their score, with the source's."""
    failed, name = partial(judge, status=Status.FAILED), judge.keywords["candidate"].id
    with context.store.workspace() as scratch, crop_search(context) as rows:
        trials = plan_trials(artifact, reference, rows, context, folder=scratch)
        runs = [*dict.fromkeys((trial.feeds, trial.path, trial.batch) for trial in trials)]  # each batch size once
        probing = Probing(artifact, reference, context, exact=exact, folder=scratch)
        predicted = predict(
            artifact,
            name=name,
            runs=runs,
            context=context,
            stopped=lambda: bool(stopped()),
            reads=probing.reads,
            after=probing.run,
        )
        predicted = probing.ended or predicted
        if isinstance(predicted, Failed):
            return failed(slug=predicted.failure, reason=f"{predicted.by}: {predicted.reason}")
        compare = partial(compare_trial, artifact=artifact, noise=context.locate_noise(reference))
        found = compare_trials(trials, compare)
        if isinstance(found, tuple):
            return failed(slug=found[0], reason=found[1])
        scores = score_trials(trials, context.samples.splits[SEARCH], context)
        if isinstance(scores, str):
            return failed(slug=FailureClass.BAD_OUTPUT, reason=scores)
        probed, unsteady = probing.judge(found), tuple[str, ...]()
        if exact:
            found, unsteady = _excuse(found, trials, compare, context, reference=reference)
    wrong = _find_wrong(found, scores, context, exact=exact, trained=artifact.is_trained) or probed.wrong
    return judge(
        status=Status.DROPPED if wrong else Status.MEASURED,
        slug="quality" if wrong else "",
        reason=wrong,
        quality=find_worst(scores).model_copy(update={"id": name}),
        largest_error=max(max(one.largest, one.excused) for each in found.values() for one in each),
        limits=(*unsteady, *list_flips(found, exact=exact), *probed.limits),
        unscored=list_unscored(found, find_worst(scores).scored),
        size_bytes=context.store.measure(artifact),
        **dict(predicted),
    )


def _excuse(
    found: Found, trials: Sequence[Trial], compare: partial[Any], context: RunContext, *, reference: Reference
) -> tuple[Found, tuple[str, ...]]:
    """Return the differences of a route that only converts, beyond those of the source's own results."""
    whole = {trial.where: trial for trial in trials if trial.reference.name == reference.outputs}
    return excuse_rows(
        found,
        {where: trial.batch for where, trial in whole.items()},
        shares=choose_shares(context, exact=True),
        compare=lambda where, answers: compare(whole[where], answers=answers),
        context=context,
        reference=reference,
    )


def _find_wrong(found: Found, scores: dict[str, Quality], context: RunContext, *, exact: bool, trained: bool) -> str:
    """Return why outputs on the search split are wrong, or an empty string."""
    labelled = has_labels(context.samples.splits[SEARCH], context)
    return (
        find_fall(scores, found)
        or find_conflict(found, scores, choose_shares(context, exact=exact), labelled=labelled)
        or find_wrong(found, scores, trained=trained)
    )
