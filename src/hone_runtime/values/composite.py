"""Composites: an artifact made of several artifacts, each of which serves some of the recipe's shapes."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format, Json, Value

COMPOSITE: Final = "composite"
"""The format, the toolchain that runs it, and the candidate's id, which are the same."""

PARTS: Final = "parts"
"""The folder of a composite's parts, one numbered folder each; also the key of the parts in its metadata."""

RUNS: Final = {"onnxruntime": "onnx", "openvino": "openvino-ir"}
"""The allowed runtimes of parts, with the format of each: both can be imported in one process, and neither runs
an author's code."""


class Part(Value):
    """An artifact that serves some of the recipe's shapes; the first part also serves all other shapes."""

    candidate: str = Field(description="The id of the candidate whose artifact it is.")
    digest: str = Field(description="That artifact's, to be found in a store; its files are sealed as the composite's.")
    runtime: str = Field(description="The toolchain that opens it.")
    format: Format
    run_options: dict[str, Json] = Field({}, description="For its runtime when it opens it.")
    metadata: dict[str, Json] = Field({}, description="What its adaptors noted.")
    shapes: dict[str, dict[str, int]] = Field({}, description="The recipe's shapes that it serves, with their sizes.")


def can_be_part(artifact: Artifact) -> bool:
    """Return whether an artifact can be a part: for any size, without a cache, and of an allowed runtime."""
    fits = artifact.runtime is not None and RUNS.get(artifact.runtime) == artifact.format
    return fits and not artifact.static_shapes and not artifact.has_cache and artifact.device == "cpu"


def read_parts(artifact: Artifact) -> tuple[Part, ...]:
    """Return the parts of a composite; empty for any other artifact.

    Raises:
        ValueError: The metadata of a composite have no parts, or one with a runtime or format that is not allowed.
    """
    if artifact.format != COMPOSITE:
        return ()
    noted = artifact.metadata.get(PARTS)
    if not isinstance(noted, list) or not noted:
        raise ValueError("the metadata of a composite name no parts")
    parts = tuple(Part.model_validate(part) for part in noted)
    if odd := [part for part in parts if RUNS.get(part.runtime) != part.format]:
        raise ValueError(f"a part of the format {odd[0].format!r:.80} for {odd[0].runtime!r:.80}")
    return parts
