"""Convert the source model to a backend's format."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hone_runtime.contract.adaptor import Options
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.outcome import Outcome, Refused
from hone_runtime.values.samples import Reference
from kedro_hone.search.context import RunContext
from kedro_hone.search.steps.step import transform


def convert_to_backend(
    *,
    context: RunContext,
    reference: Reference,
    backend: str,
    converters: Mapping[str, Options],
    **others: Outcome,
) -> Outcome:
    """Return the source model in a backend's format, from the first adaptor that converts it or another backend.

    Nothing is built before the reference, that is, before the source model was run and scored. A conversion starts
    whatever its expected time, since all routes from the backend need it. ``others`` are the outcomes of the backends
    before this one. If no adaptor takes it, the reason is returned, with every step that was tried: the outcome of the
    other backend that it would be converted from.
    """
    source = context.source
    if source.format == backend:
        return source
    taken = {form for name in converters for form in read_catalogue().find_adaptor(name).accepts}
    missing = (other for name, other in others.items() if name in taken and not isinstance(other, Artifact))
    lost = next(missing, None)
    outcome: Outcome = lost or _refuse(source.format, backend)
    steps: dict[str, StepFacts] = {}
    parents = [parent for parent in (source, *others.values()) if isinstance(parent, Artifact)]
    for parent, (name, options) in product(parents, converters.items()):
        adaptor = read_catalogue().find_adaptor(name)
        if parent.format in adaptor.accepts:
            outcome = transform(adaptor, options, parent, context, reference=reference)
            steps |= {step.key: step for step in outcome.steps}
        if isinstance(outcome, Artifact):
            break
    if lost and not isinstance(outcome, Artifact):
        steps = {step.key: step for step in lost.steps} | steps
    return outcome.model_copy(update={"steps": tuple(steps.values())})


def _refuse(given: str, backend: str) -> Refused:
    """Return that no adaptor converts a format to a backend's, and which adaptors do so in their own routes."""
    adaptors = read_catalogue().adaptors.values()
    own = sorted(one.name for one in adaptors if one.alternative and one.produces == backend and given in one.accepts)
    reason = f"no enabled adaptor converts {given} to {backend}, directly or through another backend"
    more = f"; routes of {' and '.join(own)} do so themselves, if the recipe has them" if own else ""
    return Refused(by=backend, slug="no-converter", reason=reason + more)
