"""Convert the source model to a backend's format."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from kedro_hone.building.steps import transform
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.adaptor import Options
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.values.artifact import Artifact, StepFacts
from kedro_hone.core.values.outcome import Outcome, Refused
from kedro_hone.core.values.samples import Reference


def convert_to_backend(
    *, setting: Setting, reference: Reference, backend: str, converters: Mapping[str, Options], **others: Outcome
) -> Outcome:
    """Return the source model in a backend's format, converted by the first adaptor that takes it or another backend.

    Nothing is built before the source model was run and scored: that is the reference. The others are the outcomes of
    the backends before this one. Where none takes it, returned is why; with every step that was tried.
    """
    source = setting.source
    if source.format == backend:
        return source
    reason = f"no adaptor converts {source.format} to {backend}, directly or by another backend"
    outcome: Outcome = Refused(by=backend, slug="no-converter", reason=reason)
    steps: dict[str, StepFacts] = {}
    parents = [parent for parent in (source, *others.values()) if isinstance(parent, Artifact)]
    for parent, (name, options) in product(parents, converters.items()):
        adaptor = read_catalogue().find_adaptor(name)
        if parent.format in adaptor.accepts:
            outcome = transform(adaptor, options, parent, setting, reference=reference)
            steps |= {step.key: step for step in outcome.steps}
        if isinstance(outcome, Artifact):
            break
    return outcome.model_copy(update={"steps": tuple(steps.values())})
