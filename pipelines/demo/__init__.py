"""Make a demo: a small trained network in the embedded registry, or a sentence encoder; and its data under DVC."""

from __future__ import annotations

from kedro.pipeline import Node, Pipeline

from kedro_hone.nodes.seed import seed


def create_pipeline() -> Pipeline:
    """Return the pipeline: nothing in, a registered version out."""
    return Pipeline([Node(seed, ["params:hone", "run"], "demo_version", name="seed", tags=["demo"])])
