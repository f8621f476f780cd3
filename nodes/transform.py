"""Run adaptors: from an artifact to the next one, or to the reason why there is none."""

from __future__ import annotations

from kedro_hone.building.steps import transform
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import Outcome
from kedro_hone.core.values.samples import Reference, Samples
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe


def apply_adaptor(
    *,
    parent: Outcome,
    source: Artifact,
    samples: Samples,
    reference: Reference,
    recipe: Recipe,
    store: Store,
    run: RunFolder,
    adaptor: str,
) -> Outcome:
    """Run one adaptor of a route on the outcome of the previous step; a refusal or a failure is returned unchanged.

    Nothing is built before the source model was run and scored: that is the reference.
    """
    if not isinstance(parent, Artifact):
        return parent
    setting = Setting(source=source, samples=samples, recipe=recipe, store=store, run=run)
    plan = make_plan(setting.recipe)
    found = next(a for a in plan.adaptors if a.name == adaptor)
    return transform(found, plan.options[adaptor], parent, setting, reference=reference)
