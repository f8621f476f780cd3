"""Compare the candidates with the source: validate, race, confirm, gate, report."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from kedro_hone.nodes.confirm import confirm
from kedro_hone.nodes.gate import gate
from kedro_hone.nodes.race import race
from kedro_hone.nodes.report import report
from kedro_hone.nodes.validate import validate
from kedro_hone.pipelines.binding import bind, name_log, place_node
from kedro_hone.recipe.routes import Routes, Step

MEASURE = ("compare", "needs.bench")
"""Only one node with the second tag may run on a machine at a time."""

MEASURED = ("race", "confirmation", "decision")
"""What the nodes that measure make, beside the validations."""


def create_pipeline(routes: Routes) -> Pipeline:
    """Return the pipeline: the outcomes of all routes in, the verdict and the evidence out.

    Args:
        routes: The routes of the recipe.

    Returns:
        The pipeline.
    """
    validations = {step.namespace.replace(".", "__"): f"{step.namespace}.validation" for step in routes.ends}
    common = {"source": "source", "samples": "samples", **validations}
    raced = {"result": "race", **common}
    confirmed = {"confirmation": "confirmation", **raced}
    asked = {"reference": "reference", **confirmed}
    decided = {"decision": "decision", "version": "version", **asked}
    made = (
        "reference",
        *(f"{name}.outcome" for name in (*routes.backends, *(step.namespace for step in routes.steps))),
        *validations.values(),
        *MEASURED,
    )
    logs = {name_log(name).replace(".", "__"): name_log(name) for name in made}
    nodes = (
        *(_validate(step) for step in routes.ends),
        place_node(race, name="race", inputs=common, output="race", tags=MEASURE),
        place_node(confirm, name="confirm", inputs=raced, output="confirmation", tags=MEASURE),
        place_node(gate, name="gate", inputs=asked, output="decision", tags=["compare"]),
        place_node(
            report,
            name="report",
            inputs={**decided, **logs},
            output=["evidence", "evidence_folder"],
            tags=["compare"],
        ),
    )
    return sum(nodes, Pipeline([]))


def _validate(step: Step) -> Pipeline:
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
