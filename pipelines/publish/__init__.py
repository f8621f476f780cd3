"""Publish the winner as a new version of its registry."""

from __future__ import annotations

from kedro.pipeline import Node, Pipeline

from kedro_hone.nodes.publish import publish


def create_pipeline() -> Pipeline:
    """Return the pipeline: the decision and its evidence in, the publication out."""
    names = ("decision", "evidence", "evidence_folder", "version", "source", "store", "run")
    inputs = {**{name: name for name in names}, "recipe": "params:hone"}
    return Pipeline([Node(publish, inputs, "publications", name="publish", tags=["publish"])])
