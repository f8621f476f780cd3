"""Pull the model and prepare the samples."""

from __future__ import annotations

from kedro.pipeline import Node, Pipeline

from kedro_hone.core.values.samples import SPLITS
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.pull import pull
from kedro_hone.pipelines.binding import place_node


def create_pipeline() -> Pipeline:
    """Return the pipeline: model and data in, source artifact, samples and reference out."""
    common = {"recipe": "params:hone", "store": "store", "run": "run"}
    data = {name: name for name in ("source", *SPLITS)}
    nodes = (
        Node(pull, common, ["version", "source"], name="pull"),
        Node(prepare, {**data, **common}, "samples", name="prepare"),
        place_node(take_baseline, name="baseline", inputs={}, output="reference"),
    )
    return Pipeline([*nodes], tags="pull")
