"""Pull the model and prepare the samples."""

from __future__ import annotations

from kedro.pipeline import Node, Pipeline

from kedro_hone.core.values.samples import SPLITS
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.pull import pull

_COMMON = {"recipe": "params:hone", "store": "store", "run": "run"}


def create_pipeline() -> Pipeline:
    """Return the pipeline: model and data in, source artifact, samples and reference out."""
    return Pipeline(
        [
            Node(pull, _COMMON, ["version", "source"], name="pull", tags=["pull"]),
            Node(
                prepare,
                {"source": "source", **{split: split for split in SPLITS}, **_COMMON},
                "samples",
                name="prepare",
                tags=["pull"],
            ),
            Node(
                take_baseline,
                {"source": "source", "samples": "samples", **_COMMON},
                "reference",
                name="baseline",
                tags=["pull"],
            ),
        ]
    )
