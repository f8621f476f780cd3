"""Compare the candidates with the source: validate, race, confirm, gate, report."""

from __future__ import annotations

from kedro.pipeline import Node, Pipeline

from kedro_hone.core.routes import Routes, Step
from kedro_hone.nodes.confirm import confirm
from kedro_hone.nodes.gate import gate
from kedro_hone.nodes.race import race
from kedro_hone.nodes.report import report
from kedro_hone.nodes.validate import validate
from kedro_hone.pipelines.binding import bind

MEASURE = ["needs.bench"]
"""Only one node with this tag may run on a machine at a time."""


def create_pipeline(routes: Routes) -> Pipeline:
    """Return the pipeline: the outcomes of all routes in, the verdict and the evidence out.

    Args:
        routes: The routes of the recipe.

    Returns:
        The pipeline.
    """
    validations = {step.namespace.replace(".", "__"): f"{step.namespace}.validation" for step in routes.ends}
    common = {
        "source": "source",
        "samples": "samples",
        "parameters": "params:hone",
        "workplace": "workplace",
        **validations,
    }
    return Pipeline(
        [
            *(_validate(step) for step in routes.ends),
            Node(race, common, "race", name="race", tags=["compare", *MEASURE]),
            Node(confirm, {"result": "race", **common}, "confirmation", name="confirm", tags=["compare", *MEASURE]),
            Node(
                gate,
                {"result": "race", "confirmation": "confirmation", **common},
                "decision",
                name="gate",
                tags=["compare"],
            ),
            Node(
                report,
                {
                    "result": "race",
                    "confirmation": "confirmation",
                    "decision": "decision",
                    "version": "version",
                    "reference": "reference",
                    **common,
                },
                "evidence",
                name="report",
                tags=["compare"],
            ),
        ]
    )


def _validate(step: Step) -> Node:
    return Node(
        bind(validate, candidate=step.namespace, route=step.route),
        {
            "outcome": f"{step.namespace}.outcome",
            "source": "source",
            "samples": "samples",
            "reference": "reference",
            "parameters": "params:hone",
            "workplace": "workplace",
        },
        f"{step.namespace}.validation",
        name="validate",
        namespace=step.namespace,
        tags=["compare"],
    )
