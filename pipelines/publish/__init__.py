"""Publish the winner as a new version of its registry."""

from __future__ import annotations

from kedro.pipeline import Pipeline

from kedro_hone.nodes.publish import publish
from kedro_hone.pipelines.binding import place_node


def create_pipeline() -> Pipeline:
    """Return the pipeline: the decision and the digest of its evidence in, the publication out."""
    inputs = {name: name for name in ("decision", "evidence_folder", "version")}
    return place_node(publish, name="publish", inputs=inputs, output="publications", tags=["publish"])
