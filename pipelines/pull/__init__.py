"""Pull the model and prepare the samples."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from hone_runtime.values.samples import SPLITS, TRAINING
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.pull import pull
from kedro_hone.pipelines.binding import place_node, place_stage
from kedro_hone.recipe.plan import Plan


def create_pipeline(plan: Plan) -> Pipeline:
    """Return the pipeline: model and data in, source artifact, samples and reference out.

    The training split is only read if an adaptor of the plan is trained with it, and not required otherwise.
    """
    splits = (*SPLITS, TRAINING) if plan.trains else SPLITS
    read = ("model", "trust", "shapes", "threads", "seed", "environments", "missing_toolchains")
    prepared = ("program.name", "program.options", "shapes", "calibration_rows")
    data, made = {name: name for name in ("source", *splits)}, ["version", "source"]
    nodes = (
        place_node(pull, name="pull", inputs={}, output=made, decided_by=read),
        place_node(prepare, name="prepare", inputs=data, output="samples", decided_by=prepared),
        place_node(
            take_baseline, name="baseline", inputs={}, output="reference", decided_by=["program"], tags=["needs.bench"]
        ),
    )
    return Pipeline(place_stage("pull", nodes), tags="pull")
