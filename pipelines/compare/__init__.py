"""Compare the candidates with the source: validate, race, confirm, gate, report."""

from __future__ import annotations

from typing import Any

from kedro.pipeline import Pipeline

from hone_runtime.values.composite import COMPOSITE, RUNS
from kedro_hone.nodes.challenge import challenge, compare_with_published
from kedro_hone.nodes.choose import choose
from kedro_hone.nodes.compose import add_composite, compose
from kedro_hone.nodes.confirm import confirm
from kedro_hone.nodes.export import export
from kedro_hone.nodes.gate import gate
from kedro_hone.nodes.gather import gather
from kedro_hone.nodes.race import race
from kedro_hone.nodes.report import report
from kedro_hone.nodes.validate import validate
from kedro_hone.nodes.wire import measure_wire
from kedro_hone.pipelines.binding import place_node, place_stage
from kedro_hone.recipe.plan import BUILD, Plan, Routes

ALONE = ["needs.bench"]
"""The tag of nodes that measure, or compute on the measuring machine: only one of them may run there at a time."""
EXPECTED = {"reference": "reference", "forecast": "forecast"}
"""Inputs of validating and racing, in addition to the candidates."""
VALIDATED = ("gates.drop", "gates.drops", "gates.confidence", "gates.conversion", "gates.unscored", "seed")
RACED = ("toolchains", "adaptors", "routes", "budget", "race", *VALIDATED)
CONFIRMED = ("confirm", "race", "gates.speedup", "gates.confidence", "seed")
"""The keys of the recipe that affect which candidates are valid, race, and are confirmed."""


def create_pipeline(plan: Plan) -> Pipeline:
    """Return the pipeline: the outcomes of all routes in, the verdict and the evidence out."""
    routes = plan.routes
    validated = [
        place_node(
            validate,
            candidate=step.namespace,
            route=step.route,
            options=step.chosen,
            name="validate",
            inputs={"outcome": f"{step.namespace}.outcome", **EXPECTED},
            output="validation",
            decided_by=VALIDATED,
            namespace=step.namespace,
            tags=["validate"],
        )
        for step in routes.ends
    ]
    validations = {step.namespace.replace(".", "__"): f"{step.namespace}.validation" for step in routes.ends}
    composed = _place_composite() if _can_compose(routes) else []
    raced = "raced" if composed else "race"
    gathered = place_node(gather, name="gather", inputs=validations, output="validations")
    entering = {"validations": "validations", **EXPECTED}
    first = place_node(race, name="race", inputs=entering, output=raced, decided_by=RACED, tags=ALONE)
    tried, racing = place_stage(BUILD, [*validated, gathered]), place_stage("race", [first, *composed])
    return Pipeline([tried, racing, *_place_verdict("race", plan)], tags="compare")


def create_choice_pipeline(plan: Plan) -> Pipeline:
    """Return the pipeline of a person's choice: the last race in, the verdict on one of its candidates out."""
    chosen = place_node(choose, name="choose", inputs={"result": "race"}, output="chosen")
    return Pipeline([place_stage("race", [chosen]), *_place_verdict("chosen", plan)], tags="compare")


def _place_verdict(raced: str, plan: Plan) -> list[Pipeline]:
    """Return the nodes from a race's result to the evidence."""
    verdict = "assessed" if plan.challenges else "decision"
    asked = {"result": raced, "confirmation": "confirmation", "reference": "reference"}
    decided = {**asked, "decision": "decision", "version": "version"}
    confirmed = place_node(
        confirm, name="confirm", inputs={"result": raced}, output="confirmation", decided_by=CONFIRMED, tags=ALONE
    )
    judged = place_node(
        gate, name="gate", inputs=asked, output=verdict, decided_by=["gates", "confirm", "golden_rows"], tags=ALONE
    )
    challenged = _place_challenge(raced) if plan.challenges else []
    served = [_place_wire()] if plan.serves else []
    exported = [_place_export()] if plan.exports else []
    shown = decided | ({"wire": "wire"} if served else {}) | ({"forms": "forms"} if exported else {})
    told = place_node(report, name="report", inputs=shown, output=["evidence", "evidence_folder"])
    return [confirmed, place_stage("gate", [judged, *challenged, *served, *exported, told])]


def _place_wire() -> Pipeline:
    """Return the node that serves the winner and the source, and measures both."""
    inputs = {"decision": "decision", "version": "version"}
    return place_node(measure_wire, name="wire", inputs=inputs, output="wire", decided_by=["serving"], tags=ALONE)


def _place_export() -> Pipeline:
    """Return the node that writes the winner's other forms, between the decision and the evidence."""
    inputs = {"decision": "decision", "version": "version"}
    return place_node(export, name="export", inputs=inputs, output="forms")


def _place_challenge(raced: str) -> list[Pipeline]:
    """Return the nodes that compare the winner with the published version, which takes the source's place."""
    named = {name: f"published.{name}" for name in ("incumbent", "contest", "confirmation", "decision")}
    against: dict[str, str] = {"result": named["contest"], "source": named["incumbent"]}
    asked = {**against, "confirmation": named["confirmation"], "reference": "reference"}
    defended = {
        "assessed": "assessed",
        "challenged": named["decision"],
        **{n: named[n] for n in ("contest", "incumbent")},
    }
    common: dict[str, Any] = {"namespace": "published", "tags": ALONE}
    return [
        place_node(
            challenge,
            name="challenge",
            inputs={"result": raced, "assessed": "assessed", "version": "version"},
            output=["incumbent", "contest"],
            namespace="published",
        ),
        place_node(confirm, name="confirm", inputs=against, output="confirmation", decided_by=CONFIRMED, **common),
        place_node(
            gate, name="gate", inputs=asked, output="decision", decided_by=["gates", "confirm", "golden_rows"], **common
        ),
        place_node(compare_with_published, name="compare_with_published", inputs=defended, output="decision"),
    ]


def _can_compose(routes: Routes) -> bool:
    """Return whether routes end in more than one of the runtimes that a composite can contain."""
    return len({step.adaptor.toolchain.name for step in routes.ends} & RUNS.keys()) > 1


def _place_composite() -> list[Pipeline]:
    """Return the nodes between the race and the confirmation: they make and validate a composite and add it first."""
    outcome, validation = f"{COMPOSITE}.outcome", f"{COMPOSITE}.validation"
    return [
        place_node(
            compose,
            name="compose",
            inputs={"result": "raced"},
            output="outcome",
            decided_by=["confirm.finalists"],
            namespace=COMPOSITE,
            tags=ALONE,
        ),
        place_node(
            validate,
            candidate=COMPOSITE,
            route=(),
            name="validate",
            inputs={"outcome": outcome, "reference": "reference"},
            output="validation",
            decided_by=VALIDATED,
            namespace=COMPOSITE,
            tags=["validate"],
        ),
        place_node(
            add_composite, name="add_composite", inputs={"result": "raced", "validation": validation}, output="race"
        ),
    ]
