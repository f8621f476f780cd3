"""Check what can run before it may race: the saved artifact, in a new process, at several batch sizes.

Silent wrong results are the reason (a quantized network that is right at one batch size and wrong at another, a
package that returns the wrong number of rows): so every candidate answers the whole search split at every shape of the
recipe, and at an odd size where it takes any, and the worst answer counts.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.core.contract import Licence
from kedro_hone.core.envs import environment_key
from kedro_hone.core.errors import HoneError
from kedro_hone.core.host import read_host
from kedro_hone.core.launches import launch
from kedro_hone.core.measurement import Status, Validation
from kedro_hone.core.registry import read_catalogue
from kedro_hone.core.samples import GATE, SEARCH, Reference, Samples, Split
from kedro_hone.core.stats import needed_rows, provable, share_level, smallest_provable_drop
from kedro_hone.core.types import Artifact, Candidate, Failed, FailureClass, Outcome, Refused, digest_json
from kedro_hone.core.worker_session import Session
from kedro_hone.core.workplace import Workplace
from kedro_hone.nodes.scoring import Score, score
from kedro_hone.nodes.setting import Setting
from kedro_hone.nodes.transform import digest_worker
from kedro_hone.programs import digest_worker as digest_programs
from kedro_hone.programs import find_metric

logger = logging.getLogger(__name__)

VERSION = 1
"""Raised when a validation would come out differently; part of its key in the store."""

ODD_BATCH = 7
"""A size that no recipe names: what was specialized by mistake shows at it."""


def refer(*, source: Artifact, samples: Samples, parameters: dict[str, Any], workplace: Workplace) -> Reference:
    """Let the source model answer the search split, and score it: what every candidate is compared with.

    Args:
        source: The source model.
        samples: The prepared data.
        parameters: The recipe.
        workplace: Where the run works.

    Returns:
        The reference.

    Raises:
        HoneError: ``model-unsupported`` when the source cannot be run; ``labels-mismatch``; ``gate-unprovable`` when
            the gate split is too small for the recipe's limit, before anything is built.
    """
    setting = Setting.of(source, samples, parameters, workplace)
    named = setting.recipe.program.metric
    metric = find_metric(named, project=Path.cwd()) if named else None
    toolchain = read_catalogue().find_toolchain(str(source.runtime))
    key = digest_json(
        [
            "reference",
            VERSION,
            source.digest,
            samples.digest,
            setting.recipe.thread_count,
            setting.recipe.program.model_dump(mode="json"),
            metric.digest if metric else None,
            digest_programs(),
            digest_worker(toolchain),
            environment_key(toolchain),
            read_host().fingerprint,
        ]
    )
    store = workplace.store
    known = store.read_value(key)
    if known is not None and Path(known["outputs"]).exists():
        reference = Reference.model_validate(known)
    else:
        reference = _make_reference(key, setting)
        store.write_value(key, reference.model_dump(mode="json"))
    check_provable(reference, samples.splits[GATE].n, setting)
    return reference


def _make_reference(key: str, setting: Setting) -> Reference:
    split = setting.samples.splits[SEARCH]
    with setting.workplace.store.workspace() as scratch:
        fault = answer(
            setting.source, name="source", feeds=Path(split.feeds), output=scratch / "outputs.npz", setting=setting
        )
        if fault is not None:
            raise HoneError(
                "model-unsupported",
                "The source model does not run on the search split.",
                why=fault.reason,
                hint=f"Read {fault.log or 'the log of the step'}; the inputs must be what the model takes.",
            )
        kept = setting.workplace.store.keep_tree(key, scratch) / "outputs.npz"
    itself = score_source(kept, split, setting)
    return Reference(
        outputs=str(kept), digest=digest_json([key]), metric=itself.metric, value=itself.source, kind=itself.kind
    )


def score_source(outputs: Path, split: Split, setting: Setting) -> Score:
    """Score the source's answers on a split.

    Raises:
        HoneError: ``program-failed``: the program cannot score them.
    """
    itself = score_answers({"source": outputs}, reference=outputs, split=split, setting=setting)["source"]
    if isinstance(itself, Score):
        return itself
    raise HoneError(
        "program-failed",
        f"The source model cannot be scored on the {split.name} split.",
        why=itself,
        hint="Mend the program or its metric; see docs/how-to/write-a-program.md.",
    )


def check_provable(reference: Reference, rows: int, setting: Setting) -> None:
    """Refuse to begin when the gate split cannot prove the limit even if nothing is lost.

    Raises:
        HoneError: ``gate-unprovable``, with the rows that would be needed.
    """
    gates = setting.recipe.gates
    confidence = 1 - share_level(1 - gates.confidence, finalists=setting.recipe.confirm.finalists)
    if reference.kind != "proportion" or provable(rows, gates.drop, confidence):
        return
    needed, possible = needed_rows(gates.drop, confidence), smallest_provable_drop(rows, confidence)
    raise HoneError(
        "gate-unprovable",
        f"{rows} gate rows cannot prove a drop under {gates.drop:g}, even if nothing is lost.",
        why=f"With so few rows the interval still reaches {possible:.4f} "
        f"(confidence {gates.confidence:g}, shared by {setting.recipe.confirm.finalists} finalists).",
        hint=f"Use at least {needed} rows, or set hone.gates.drop above {possible:.4f}.",
    )


def score_answers(
    outputs: dict[str, Path], *, reference: Path, split: Split, setting: Setting, confidence: float | None = None
) -> dict[str, Score | str]:
    """Score answers of candidates against the source's, with the recipe's program and metric.

    Args:
        outputs: The answers by name.
        reference: The source's answers.
        split: The split that was answered.
        setting: The run.
        confidence: Of the intervals; the recipe's when not given.

    Returns:
        A score for each name, or what kept it from being scored.
    """
    return score(
        outputs,
        reference=reference,
        split=split,
        program=setting.samples.program,
        source=setting.source,
        metric=setting.metric,
        confidence=confidence or setting.recipe.gates.confidence,
        workplace=setting.workplace,
    )


def answer(artifact: Artifact, *, name: str, feeds: Path, output: Path, setting: Setting) -> Failed | None:
    """Run an artifact once over all rows of a split, in batches of the recipe's largest shape.

    Args:
        artifact: What to run.
        name: The candidate's id.
        feeds: The split's inputs.
        output: Where the outputs go, as ``.npz``.
        setting: The run.

    Returns:
        None, or why it failed.
    """
    with launch(
        artifact, name=name, workplace=setting.workplace, launching=setting.launching, output=output.parent
    ) as session:
        if isinstance(session, Failed):
            return session
        loaded = session.load()
        if isinstance(loaded, Failed):
            return loaded
        return session.run(feeds, output, batch=max(shape.batch for shape in setting.recipe.all_shapes))


def validate(
    *,
    outcome: Outcome,
    source: Artifact,
    samples: Samples,
    reference: Reference,
    parameters: dict[str, Any],
    workplace: Workplace,
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
    named = Candidate(id=candidate, route=route, outcome=outcome)
    if isinstance(outcome, Refused):
        reason = f"{outcome.by}: {outcome.reason}"
        return Validation(candidate=named, status=Status.REFUSED, slug=outcome.slug, reason=reason)
    if isinstance(outcome, Failed):
        return _fail(named, outcome)
    setting = Setting.of(source, samples, parameters, workplace)
    key = _make_key(outcome, reference, setting)
    known = workplace.store.read_value(key)
    if known is not None:
        return Validation.model_validate(known).model_copy(update={"candidate": named, "cached": True})
    started = time.monotonic()
    validation = _check(named, outcome, reference, setting)
    seconds = time.monotonic() - started
    workplace.note(
        "validation", candidate=candidate, status=validation.status, reason=validation.reason, seconds=seconds
    )
    logger.info("%-9s %s%s", validation.status, candidate, f": {validation.reason}" if validation.reason else "")
    if not (validation.slug in set(FailureClass) and FailureClass(validation.slug).transient):
        workplace.store.write_value(key, validation.model_dump(mode="json"))
    return validation


def _make_key(artifact: Artifact, reference: Reference, setting: Setting) -> str:
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return digest_json(
        [
            "validation",
            VERSION,
            artifact.digest,
            reference.digest,
            setting.samples.digest,
            setting.recipe.gates.drop,
            setting.recipe.gates.confidence,
            digest_worker(toolchain),
            environment_key(toolchain),
            read_host().fingerprint,
        ]
    )


def _fail(named: Candidate, failed: Failed) -> Validation:
    reason = f"{failed.by}: {failed.reason}"
    return Validation(candidate=named, status=Status.FAILED, slug=failed.failure, reason=reason)


def _check(named: Candidate, artifact: Artifact, reference: Reference, setting: Setting) -> Validation:
    outputs, split = Path(reference.outputs), setting.samples.splits[SEARCH]
    with setting.workplace.store.workspace() as scratch:
        with launch(
            artifact, name=named.id, workplace=setting.workplace, launching=setting.launching, output=scratch
        ) as session:
            if isinstance(session, Failed):
                return _fail(named, session)
            loaded = session.load(feeds=Path(setting.samples.shapes[setting.shapes[0]]))
            if isinstance(loaded, Failed):
                return _fail(named, loaded)
            answers = _answer_everywhere(session, artifact, setting, scratch)
            if isinstance(answers, Failed):
                return _fail(named, answers)
            memory = session.memory_bytes()
        fault, agreement = _compare(answers, outputs)
        if fault:
            slug, reason = fault
            return Validation(candidate=named, status=Status.FAILED, slug=slug, reason=reason, agreement=agreement)
        scores = score_answers(answers, reference=outputs, split=split, setting=setting)
    unscored = next((reason for reason in scores.values() if isinstance(reason, str)), None)
    if unscored is not None:
        return Validation(candidate=named, status=Status.FAILED, slug=FailureClass.BAD_OUTPUT, reason=unscored)
    judged = {name: found for name, found in scores.items() if isinstance(found, Score)}
    where, worst = max(judged.items(), key=lambda item: item[1].drop.estimate)
    limit = setting.recipe.gates.drop
    lost = worst.drop.low > limit
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    return Validation(
        candidate=named,
        status=Status.DROPPED if lost else Status.MEASURED,
        slug="quality" if lost else "",
        reason=_explain_loss(worst, where, limit) if lost else "",
        quality=worst.judge(SEARCH, limit),
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
    session: Session, artifact: Artifact, setting: Setting, scratch: Path
) -> dict[str, Path] | Failed:
    """Answer the search split at every shape, and at an odd batch where any size is taken."""
    batches = {shape.name: shape.batch for shape in setting.recipe.all_shapes}
    if not artifact.static_shapes:
        batches[f"batch {ODD_BATCH}"] = ODD_BATCH
    answers: dict[str, Path] = {}
    for name, batch in batches.items():
        path = scratch / f"{batch}.npz"
        fault = session.run(Path(setting.samples.splits[SEARCH].feeds), path, batch=batch)
        if isinstance(fault, Failed):
            return fault
        answers[name] = path
    return answers


def _compare(answers: dict[str, Path], reference: Path) -> tuple[tuple[FailureClass, str] | None, float | None]:
    """Compare every answer's names, shapes and values with the source's; return the fault, and the agreement."""
    agreement = 0.0
    with np.load(reference, allow_pickle=False) as expected:
        for where, path in answers.items():
            with np.load(path, allow_pickle=False) as found:
                for name in expected.files:
                    fault = _find_fault(expected[name], found[name] if name in found.files else None)
                    if fault is not None:
                        return (fault[0], f"output {name!r} at {where}: {fault[1]}"), None
                    want, got = expected[name].astype(np.float64), found[name].astype(np.float64)
                    scale = float(np.abs(want).max(initial=0.0)) or 1.0
                    agreement = max(agreement, float(np.abs(got - want).max(initial=0.0)) / scale)
    return None, agreement


def _find_fault(want: NDArray[Any], got: NDArray[Any] | None) -> tuple[FailureClass, str] | None:
    if got is None:
        return FailureClass.BAD_OUTPUT, "there is none"
    if got.shape != want.shape:
        return FailureClass.BAD_OUTPUT, f"its shape is {got.shape}, the source's is {want.shape}"
    if got.dtype.kind != want.dtype.kind:
        return FailureClass.BAD_OUTPUT, f"its type is {got.dtype}, the source's is {want.dtype}"
    if not np.isfinite(got).all():
        return FailureClass.NUMERICS, "some values are not finite"
    return None
