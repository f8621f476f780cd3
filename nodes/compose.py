"""Compose: if no candidate is the fastest at all shapes of the recipe, put the fastest of each into one artifact.

The race's estimates only select the parts. The composite is then validated like any candidate, at every shape, and
confirmed next to the best single candidate: its speed-up is measured, and never computed from its parts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from hone_runtime.sessions.shapes import find_shapes
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import TRAINED, Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.composite import COMPOSITE, PARTS, Part, can_be_part
from hone_runtime.values.measurement import RACED, RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Outcome, Refused
from kedro_hone.search.context import RunContext
from kedro_hone.search.steps.inheritance import INHERITED
from kedro_hone.search.verdict.provability import is_provable
from kedro_hone.search.verdict.verdict import can_win

logger = open_logger(__name__)

GAIN: Final = 1.05
"""How many times faster than the part for all shapes another part must have been in the race: its ratios are rough. The
composite is one more finalist, which the confirmation compares with the others in the same launches."""


def compose(*, context: RunContext, result: RaceResult) -> Outcome:
    """Return the composite of the fastest candidates of each shape, or why there is none."""
    refuse = partial(Refused, by=COMPOSITE, slug="nothing-to-do")
    if context.recipe.confirm.finalists < 2:
        return refuse(reason="the recipe confirms one finalist, which is the best candidate of the race")
    able = [one for one in result.validations if one.status is Status.MEASURED and can_win(one, context.recipe.gates)]
    # A composite loses what any of its parts loses: one that the gate cannot prove makes it another that it cannot.
    able = [one for one in able if is_provable(one, context)] or able
    artifacts = _find_artifacts(able)
    names = {one.candidate.id for one in able}
    best = next((one for one in result.standings if one.status is Status.MEASURED and one.id in names), None)
    if best is None or best.id not in artifacts or not best.ratios:
        return refuse(reason="the best candidate of the race cannot be part of a composite")
    lasted = [one for one in result.standings if one.id in artifacts and one.status in RACED]
    chosen = _choose(best, lasted, artifacts)
    inputs = [spec.model_dump(mode="json") for spec in artifacts[best.id].inputs]
    keys = {name: find_shapes(inputs, dict(sizes)) for name, sizes in context.recipe.sizes.items()}
    if None in keys.values() or len(set(keys.values())) < len(keys):
        return refuse(reason="the shapes of the inputs do not distinguish the recipe's shapes")
    if set(chosen.values()) == {best.id}:
        return refuse(reason=f"no candidate is faster than {best.id} at any shape by {GAIN - 1:.0%} or more")
    parts = list(dict.fromkeys((best.id, *chosen.values())))
    served = {name: [shape for shape, of in chosen.items() if of == name] for name in parts}
    for name, shapes in served.items():
        logger.info("composed  %s: %s", name, ", ".join(shapes) or "all other shapes")
    return _seal({name: artifacts[name] for name in parts}, served, context)


def add_composite(*, context: RunContext, result: RaceResult, validation: Validation) -> RaceResult:  # noqa: ARG001 - see below
    """Return the race's result with a valid composite first; unchanged if absent.

    It takes the ``context``, like every node that does not make a part of it, so that its inputs are of one recipe.
    """
    outcome = validation.candidate.outcome
    if not isinstance(outcome, Artifact):
        return result
    if validation.status is not Status.MEASURED:
        return result.model_copy(update={"validations": (*result.validations, validation)})
    standing = Standing(id=validation.candidate.id, status=Status.MEASURED, rounds=0)
    return result.model_copy(
        update={
            "validations": (*result.validations, validation),
            "standings": (standing, *result.standings),
        }
    )


def _find_artifacts(validations: Iterable[Validation]) -> dict[str, Artifact]:
    """Return the artifacts that can be parts, by their candidates' ids."""
    candidates = [one.candidate for one in validations]
    return {one.id: one.outcome for one in candidates if isinstance(one.outcome, Artifact) and can_be_part(one.outcome)}


def _choose(best: Standing, standings: list[Standing], artifacts: Mapping[str, Artifact]) -> dict[str, str]:
    """Return the candidate of each shape: the best of the race, or one that is faster there by ``GAIN``."""
    wanted = _name_tensors(artifacts[best.id])
    rivals = [one for one in standings if one.ratios and _name_tensors(artifacts[one.id]) == wanted]
    chosen = {}
    for shape, ratio in best.ratios.items():
        fastest = max(rivals, key=lambda one: one.ratios.get(shape, 0.0))
        chosen[shape] = fastest.id if fastest.ratios.get(shape, 0.0) >= GAIN * ratio else best.id
    return chosen


def _name_tensors(artifact: Artifact) -> tuple[tuple[str, str], ...]:
    return tuple((spec.name, spec.dtype) for spec in (*artifact.inputs, *artifact.outputs))


def _seal(parts: Mapping[str, Artifact], served: Mapping[str, list[str]], context: RunContext) -> Artifact:
    first, shapes = next(iter(parts.values())), context.recipe.sizes
    noted = [
        Part(
            candidate=name,
            digest=part.digest,
            runtime=str(part.runtime),
            format=part.format,
            run_options=part.run_options,
            metadata=part.metadata,
            shapes={shape: dict(shapes[shape]) for shape in served[name]},
        ).model_dump(mode="json")
        for name, part in parts.items()
    ]
    steps = {step.key: step for part in parts.values() for step in part.steps}
    with context.store.workspace() as scratch:
        folder = scratch / "output"
        for number, part in enumerate(parts.values()):
            shutil.copytree(context.store.locate(part), folder / PARTS / str(number))
        sealed = context.store.seal(
            folder,
            parent=first,
            format=COMPOSITE,
            inputs=first.inputs,
            outputs=first.outputs,
            runtime=COMPOSITE,
            metadata={**inherit([*parts.values()]), PARTS: noted},
        )
    return sealed.model_copy(update={"steps": tuple(steps.values())})


def inherit(parts: Sequence[Artifact]) -> dict[str, Json]:
    """Return the metadata of the first part that a composite has, too, and the notes of trainings of all parts."""
    trained: dict[str, Json] = {}
    for part in parts:
        trained |= part.metadata.get(TRAINED, {})
    own = {name: value for name, value in parts[0].metadata.items() if name in INHERITED}
    return {**own, TRAINED: trained} if trained else own
