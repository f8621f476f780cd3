"""Build every candidate: one namespace for each adaptor of each route, within that of the stage."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.values.base import CPU
from kedro_hone.nodes.convert import convert_to_backend
from kedro_hone.nodes.forecast import forecast
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.pipelines.binding import place_node, place_stage
from kedro_hone.recipe.plan import BUILD, SOURCE, TRAINS, UNDISTURBED, Plan
from kedro_hone.recipe.variants import name_variant


def create_pipeline(plan: Plan) -> Pipeline:
    """Return the pipeline: the source artifact in, the outcome of every step of every route out."""
    backends, reference = plan.routes.backends, {"reference": "reference"}
    first = place_node(
        forecast, adaptors=tuple(plan.options), name="forecast", inputs={"source": "source"}, output="forecast"
    )
    converted = [
        place_node(
            convert_to_backend,
            backend=backend,
            converters={adaptor.name: plan.options[adaptor.name] for adaptor in plan.routes.converters[backend]},
            name="convert",
            inputs=reference | {other: f"{other}.outcome" for other in backends[:place]},
            output="outcome",
            decided_by=[f"adaptors.{adaptor.name}" for adaptor in plan.routes.converters[backend]],
            namespace=backend,
        )
        for place, backend in enumerate(backends)
    ]
    applied = [
        place_node(
            apply_adaptor,
            adaptor=step.adaptor.name,
            options=step.options,
            title=name_variant(step.adaptor.name, step.chosen),
            name=step.adaptor.stage.value,
            inputs=reference
            | {"forecast": "forecast"}
            | {"parent": "source" if step.parent == SOURCE else f"{step.parent}.outcome"},
            output="outcome",
            decided_by=[f"adaptors.{step.adaptor.name}"],
            namespace=step.namespace,
            tags=_list_tags(step.adaptor),
        )
        for step in plan.routes.steps
    ]
    return Pipeline(place_stage(BUILD, [first, *converted, *applied]), tags="build")


def _list_tags(adaptor: Adaptor) -> list[str]:
    tags = [f"toolchain.{adaptor.toolchain.name}"]
    if adaptor.device != CPU:
        tags.append("needs.gpu")
    if adaptor.toolchain.remembers:  # it measures while it works
        tags.append("needs.bench")
    if adaptor.trains:
        tags.append(TRAINS)
    if adaptor.trains or Need.DROP_LIMIT in adaptor.needs:  # a tuner measures the times of operators
        tags.append(UNDISTURBED)
    return tags
