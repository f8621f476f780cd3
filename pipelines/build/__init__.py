"""Build every candidate: one namespace for each adaptor of each route."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from kedro_hone.core.values.base import Format
from kedro_hone.nodes.convert import convert_to_backend
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.pipelines.binding import place_node
from kedro_hone.recipe.routes import SOURCE, Routes, RouteStep


def create_pipeline(routes: Routes) -> Pipeline:
    """Return the pipeline: the source artifact in, the outcome of every step of every route out."""
    backends = [_convert(backend, routes.backends[:place]) for place, backend in enumerate(routes.backends)]
    return sum((*backends, *(_apply(step) for step in routes.steps)), Pipeline([]))


def _convert(backend: Format, before: tuple[Format, ...]) -> Pipeline:
    return place_node(
        convert_to_backend,
        backend=backend,
        name="convert",
        inputs={"reference": "reference", **{other: f"{other}.outcome" for other in before}},
        output="outcome",
        namespace=backend,
        tags=["build"],
    )


def _apply(step: RouteStep) -> Pipeline:
    return place_node(
        apply_adaptor,
        adaptor=step.adaptor.name,
        name=step.adaptor.stage.value,
        inputs={
            "parent": "source" if step.parent == SOURCE else f"{step.parent}.outcome",
            "reference": "reference",
        },
        output="outcome",
        namespace=step.namespace,
        tags=["build", f"toolchain.{step.adaptor.toolchain.name}"],
    )
