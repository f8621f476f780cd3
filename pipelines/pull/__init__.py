"""Pull the model and prepare the samples."""

from __future__ import annotations

from kedro.pipeline import Node, Pipeline

from kedro_hone.core.samples import SPLITS
from kedro_hone.nodes.samples import prepare
from kedro_hone.nodes.source import pull
from kedro_hone.nodes.validate import refer


def create_pipeline() -> Pipeline:
    """Return the pipeline: model and data in, source artifact, samples and reference out."""
    return Pipeline(
        [
            Node(pull, ["params:hone", "workplace"], ["version", "source"], name="pull", tags=["pull"]),
            Node(prepare, ["source", *SPLITS, "params:hone", "workplace"], "samples", name="prepare", tags=["pull"]),
            Node(refer, ["source", "samples", "params:hone", "workplace"], "reference", name="refer", tags=["pull"]),
        ]
    )
