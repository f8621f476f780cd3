"""Build every candidate: one namespace for each adaptor of each route."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from kedro_hone.core.values.base import Format
from kedro_hone.nodes.convert import convert_to_backend
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.pipelines.binding import bind, place_node
from kedro_hone.recipe.routes import SOURCE, Routes, RouteStep


def create_pipeline(routes: Routes) -> Pipeline:
    """Return the pipeline: the source artifact in, the outcome of every step of every route out.

    Args:
        routes: The routes of the recipe.

    Returns:
        The pipeline.
    """
    backends = [_convert(backend, routes.backends[:place]) for place, backend in enumerate(routes.backends)]
    return sum((*backends, *(_apply(step) for step in routes.steps)), Pipeline([]))


def _convert(backend: Format, before: tuple[Format, ...]) -> Pipeline:
    return place_node(
        bind(convert_to_backend, backend=backend),
        name="convert",
        inputs={
            "source": "source",
            "samples": "samples",
            "reference": "reference",
            **{other: f"{other}.outcome" for other in before},
        },
        output="outcome",
        namespace=backend,
        tags=["build"],
    )


def _apply(step: RouteStep) -> Pipeline:
    parent = "source" if step.parent == SOURCE else f"{step.parent}.outcome"
    return place_node(
        bind(apply_adaptor, adaptor=step.adaptor.name),
        name=step.adaptor.stage.value,
        inputs={"parent": parent, "source": "source", "samples": "samples", "reference": "reference"},
        output="outcome",
        namespace=step.namespace,
        tags=["build", f"toolchain.{step.adaptor.toolchain.name}"],
    )
