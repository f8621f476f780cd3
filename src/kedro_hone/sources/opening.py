"""A pulled source as the artifact that a run made of it, so that the learner can open it in the place of a winner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.manifest import Manifest
from kedro_hone.sources.catalogue import read_sources
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files
from kedro_hone.sources.source_format import Flavor


def read_source(pulled: Path, attributes: Mapping[str, Json]) -> Flavor:
    """Return how the model in a folder is to be opened, without trust, given what it was sealed with.

    Nothing is copied: a folder that a stranger named, such as ``/``, is refused before all of it is read.

    Raises:
        HoneError: As ``read_flavor``.
    """
    metadata: Any = attributes.get("metadata") or {}
    task = metadata.get("transformers", {}).get("task")  # which the recipe may have named, where the model does not
    return read_flavor(pulled, trust=frozenset(), task=task, signature=metadata.get("signature"))


def write_source(pulled: Path, files: Path, attributes: Mapping[str, Json]) -> Artifact:
    """Write a source's files into a folder, as a run that pulls it does, and return the artifact that they make.

    Nothing is trusted: a source that is its author's code, a pickle or native is refused.

    Args:
        pulled: What the registry holds of the source.
        files: A new folder.
        attributes: What the source was sealed with, of which the digest is made too: it is what it was only if the
            digest is.

    Raises:
        HoneError: As ``read_flavor``.
        ValueError: The attributes are none of an artifact, or of another format than the files.
    """
    flavor = read_source(pulled, attributes)
    write = getattr(read_sources()[0][flavor.source][0], "write", None) or write_files
    write(flavor, pulled, files)
    if attributes.get("format") != flavor.format:
        raise ValueError(f"it is of the format {flavor.format}, and {attributes.get('format')!r:.80} was optimized")
    return Artifact(**attributes, digest=Manifest.measure(files, dict(attributes)).digest)
