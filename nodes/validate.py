"""Check what can run before it may race: the saved artifact, in a new process, at several batch sizes.

Silent wrong results are the reason (a quantized network that is right at one batch size and wrong at another, a
package that returns the wrong number of rows): so every candidate answers the whole search split at every shape of the
recipe, and at an odd size where it takes any, and the worst answer counts.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from kedro_hone.core.contract import Licence
from kedro_hone.core.errors import HoneError
from kedro_hone.core.host import read_host
from kedro_hone.core.launches import Launching, launch
from kedro_hone.core.measurement import Status, Validation
from kedro_hone.core.registry import read_catalogue
from kedro_hone.core.worker_session import Session
from kedro_hone.core.samples import SEARCH, Reference, Samples
from kedro_hone.core.types import Artifact, Candidate, Failed, FailureClass, Outcome, Refused, digest_json
from kedro_hone.core.workplace import Workplace
from kedro_hone.nodes.scoring import Metric, Score, score
from kedro_hone.recipe import Recipe, read_recipe

logger = logging.getLogger(__name__)

VERSION = 1
"""Raised when a validation would come out differently; part of its key in the store."""

ODD_BATCH = 7
"""A size that no recipe names: what was specialized by mistake shows at it."""


def refer(source: Artifact, samples: Samples, parameters: dict[str, Any], workplace: Workplace) -> Reference:
    """Let the source model answer the search split, and score it: what every candidate is compared with.

    Args:
        source: The source model.
        samples: The prepared data.
        parameters: The recipe.
        workplace: Where the run works.

    Returns:
        The reference.

    Raises:
        HoneError: ``model-unsupported`` when the source cannot be run; ``labels-mismatch``.
    """
    recipe = read_recipe(parameters)
    split = samples.splits[SEARCH]
    key = digest_json(["reference", VERSION, source.digest, samples.digest, recipe.thread_count, recipe.program.metric])
    known = workplace.store.read_value(key)
    if known is not None and Path(known["outputs"]).exists():
        return Reference.model_validate(known)
    with workplace.store.workspace() as scratch:
        outputs = scratch / "outputs.npz"
        answered = answer(source, name="source", feeds=Path(split.feeds), output=outputs, recipe=recipe, workplace=workplace)
        if answered is not None:
            raise HoneError(
                "model-unsupported",
                "The source model does not run on the search split.",
                why=answered.reason,
                hint=f"Read {answered.log or 'the log of the step'}; the inputs must be what the model takes.",
            )
        kept = workplace.store.keep_tree(key, scratch) / "outputs.npz"
    itself = score(
        {"source": kept},
        reference=kept,
        split=split,
        samples=samples,
        source=source,
        metric=read_metric(recipe),
        confidence=recipe.gates.confidence,
        workplace=workplace,
    )["source"]
    reference = Reference(
        outputs=str(kept), digest=digest_json([key]), metric=itself.metric, value=itself.source, kind=itself.kind
    )
    workplace.store.write_value(key, reference.model_dump(mode="json"))
    return reference


def read_metric(recipe: Recipe) -> Metric:
    """Return what the recipe measures."""
    return Metric(name=recipe.program.metric, options=dict(recipe.program.options), seed=recipe.seed)


def read_launching(recipe: Recipe) -> Launching:
    """Return how the recipe starts every worker of a comparison."""
    return Launching(threads=recipe.thread_count, seed=recipe.seed, trust=tuple(sorted(recipe.trust)))


def answer(
    artifact: Artifact, *, name: str, feeds: Path, output: Path, recipe: Recipe, workplace: Workplace
) -> Failed | None:
    """Run an artifact once over all rows of a split, in batches of the recipe's largest shape.

    Args:
        artifact: What to run.
        name: The candidate's id.
        feeds: The split's inputs.
        output: Where the outputs go, as ``.npz``.
        recipe: The recipe.
        workplace: Where the run works.

    Returns:
        None, or why it failed.
    """
    with launch(
        artifact, name=name, workplace=workplace, launching=read_launching(recipe), output=output.parent
    ) as session:
        if isinstance(session, Failed):
            return session
        loaded = session.load()
        if isinstance(loaded, Failed):
            return loaded
        return session.run(feeds, output, batch=max(shape.batch for shape in recipe.all_shapes))


def validate(
    outcome: Outcome,
    source: Artifact,
    samples: Samples,
    reference: Reference,
    parameters: dict[str, Any],
    workplace: Workplace,
    *,
    candidate: str,
    route: tuple[str, ...],
) -> Validation:
    """Check one candidate.

    Args:
        outcome: What its route produced.
        source: The source model.
        samples: The prepared data.
        reference: The source's answers.
        parameters: The recipe.
        workplace: Where the run works.
        candidate: Its id.
        route: The names of its adaptors.

    Returns:
        What was found; a candidate that may not race says why.
    """
    recipe = read_recipe(parameters)
    named = Candidate(id=candidate, route=route, outcome=outcome)
    if isinstance(outcome, Refused):
        return Validation(candidate=named, status=Status.REFUSED, slug=outcome.slug, reason=f"{outcome.by}: {outcome.reason}")
    if isinstance(outcome, Failed):
        return _fail(named, outcome)
    key = _make_key(outcome, samples, reference, recipe)
    known = workplace.store.read_value(key)
    if known is not None:
        return Validation.model_validate(known).model_copy(update={"candidate": named, "cached": True})
    validation = _check(named, outcome, source, samples, reference, recipe, workplace)
    workplace.note("validation", candidate=candidate, status=validation.status, reason=validation.reason)
    logger.info("%-9s %s%s", validation.status, candidate, f": {validation.reason}" if validation.reason else "")
    if not (validation.slug in set(FailureClass) and FailureClass(validation.slug).transient):
        workplace.store.write_value(key, validation.model_dump(mode="json"))
    return validation


def _make_key(artifact: Artifact, samples: Samples, reference: Reference, recipe: Recipe) -> str:
    return digest_json(
        [
            "validation",
            VERSION,
            artifact.digest,
            samples.digest,
            reference.digest,
            recipe.thread_count,
            recipe.gates.drop,
            recipe.gates.confidence,
            recipe.program.metric,
            read_host().fingerprint,
        ]
    )


def _fail(named: Candidate, failed: Failed) -> Validation:
    return Validation(candidate=named, status=Status.FAILED, slug=failed.failure, reason=f"{failed.by}: {failed.reason}")


def _check(
    named: Candidate,
    artifact: Artifact,
    source: Artifact,
    samples: Samples,
    reference: Reference,
    recipe: Recipe,
    workplace: Workplace,
) -> Validation:
    with workplace.store.workspace() as scratch:
        with launch(
            artifact, name=named.id, workplace=workplace, launching=read_launching(recipe), output=scratch
        ) as session:
            if isinstance(session, Failed):
                return _fail(named, session)
            first = recipe.all_shapes[0]
            loaded = session.load(feeds=Path(samples.shapes[first.name]))
            if isinstance(loaded, Failed):
                return _fail(named, loaded)
            answers = _answer_everywhere(session, artifact, samples, recipe, scratch)
            if isinstance(answers, Failed):
                return _fail(named, answers.model_copy(update={"by": named.id}))
            memory = session.memory_bytes()
        fault, agreement = _compare(answers, Path(reference.outputs), artifact)
        if fault:
            return Validation(candidate=named, status=Status.FAILED, slug=fault[0], reason=fault[1], agreement=agreement)
        scores = score(
            answers,
            reference=Path(reference.outputs),
            split=samples.splits[SEARCH],
            samples=samples,
            source=source,
            metric=read_metric(recipe),
            confidence=recipe.gates.confidence,
            workplace=workplace,
        )
    where, worst = max(scores.items(), key=lambda item: item[1].drop.estimate)
    lost = worst.drop.low > recipe.gates.drop
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return Validation(
        candidate=named,
        status=Status.DROPPED if lost else Status.MEASURED,
        slug="quality" if lost else "",
        reason=_explain_loss(worst, where, recipe.gates.drop) if lost else "",
        quality=worst.judge(SEARCH, recipe.gates.drop),
        agreement=agreement,
        size_bytes=sum(path.stat().st_size for path in artifact.folder.rglob("*") if path.is_file()),
        cold_start_ms=loaded.cold_start_ms,
        peak_memory_bytes=memory,
        publishable=toolchain.licence is not Licence.EVALUATION,
        note=toolchain.note,
    )


def _explain_loss(worst: Score, where: str, limit: float) -> str:
    return (
        f"{worst.metric} on the search split fell from {worst.source:.4f} to {worst.candidate:.4f} at {where}; "
        f"the recipe allows {limit:g}"
    )


def _answer_everywhere(
    session: Session, artifact: Artifact, samples: Samples, recipe: Recipe, scratch: Path
) -> dict[str, Path] | Failed:
    """Answer the search split at every shape, and at an odd batch where any size is taken."""
    batches = {shape.name: shape.batch for shape in recipe.all_shapes}
    if not artifact.static_shapes:
        batches[f"batch {ODD_BATCH}"] = ODD_BATCH
    answers: dict[str, Path] = {}
    for name, batch in batches.items():
        path = scratch / f"{batch}.npz"
        fault = session.run(Path(samples.splits[SEARCH].feeds), path, batch=batch)
        if isinstance(fault, Failed):
            return fault
        answers[name] = path
    return answers


def _compare(
    answers: dict[str, Path], reference: Path, artifact: Artifact
) -> tuple[tuple[FailureClass, str] | None, float | None]:
    """Compare every answer's names, shapes, types and values with the source's."""
    agreement = 0.0
    with np.load(reference, allow_pickle=False) as expected:
        for where, path in answers.items():
            with np.load(path, allow_pickle=False) as found:
                for name in expected.files:
                    if name not in found.files:
                        return (FailureClass.BAD_OUTPUT, f"no output {name!r} at {where}; it has {sorted(found.files)}"), None
                    want, got = expected[name], found[name]
                    if got.shape != want.shape:
                        reason = f"output {name!r} at {where} has the shape {got.shape}, the source's has {want.shape}"
                        return (FailureClass.BAD_OUTPUT, reason), None
                    if not np.isfinite(got).all():
                        return (FailureClass.NUMERICS, f"output {name!r} at {where} has values that are not finite"), None
                    scale = float(np.abs(want).max()) or 1.0
                    agreement = max(agreement, float(np.abs(got.astype(np.float64) - want).max()) / scale)
    return None, agreement
