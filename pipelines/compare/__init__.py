"""Compare the candidates with the source: validate, race, confirm, gate, report."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from kedro_hone.nodes.confirm import confirm
from kedro_hone.nodes.gate import gate
from kedro_hone.nodes.race import race
from kedro_hone.nodes.report import report
from kedro_hone.nodes.validate import validate
from kedro_hone.pipelines.binding import bind, place_node
from kedro_hone.recipe.routes import Routes, RouteStep

MEASURE = ("compare", "needs.bench")
"""Only one node with the second tag may run on a machine at a time."""


def create_pipeline(routes: Routes) -> Pipeline:
    """Return the pipeline: the outcomes of all routes in, the verdict and the evidence out.

    Args:
        routes: The routes of the recipe.

    Returns:
        The pipeline.
    """
    validations = {step.namespace.replace(".", "__"): f"{step.namespace}.validation" for step in routes.ends}
    common = {"source": "source", "samples": "samples"}
    raced = {"result": "race", **common}
    confirmed = {"confirmation": "confirmation", **raced}
    asked = {"reference": "reference", **confirmed}
    decided = {"decision": "decision", "version": "version", **asked}
    nodes = (
        *(_validate(step) for step in routes.ends),
        place_node(race, name="race", inputs={**common, **validations}, output="race", tags=MEASURE),
        place_node(confirm, name="confirm", inputs=raced, output="confirmation", tags=MEASURE),
        place_node(gate, name="gate", inputs=asked, output="decision", tags=["compare"]),
        place_node(
            report,
            name="report",
            inputs=decided,
            output=["evidence", "evidence_folder"],
            tags=["compare"],
        ),
    )
    return sum(nodes, Pipeline([]))


def _validate(step: RouteStep) -> Pipeline:
    return place_node(
        bind(validate, candidate=step.namespace, route=step.route),
        name="validate",
        inputs={
            "outcome": f"{step.namespace}.outcome",
            "source": "source",
            "samples": "samples",
            "reference": "reference",
        },
        output="validation",
        namespace=step.namespace,
        tags=["compare"],
    )
