"""A pulled source as the artifact that a run made from it, so that the learner can open it instead of a winner."""

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
    """Return how to open the model in a folder, without trust, given the attributes with which it was sealed.

    Nothing is copied: an untrusted path, such as ``/``, is refused before all of it is read.

    Raises:
        HoneError: As ``read_flavor``.
    """
    metadata: Any = attributes.get("metadata") or {}
    task = metadata.get("transformers", {}).get("task")  # may be from the recipe, if not in the model
    return read_flavor(pulled, trust=frozenset(), task=task, signature=metadata.get("signature"))


def write_source(pulled: Path, files: Path, attributes: Mapping[str, Json]) -> Artifact:
    """Write a source's files into a folder, like a run that pulls it, and return their artifact.

    Nothing is trusted: a source that consists of its author's code, a pickle or native code is refused.

    Args:
        pulled: The source's files from the registry.
        files: A new folder.
        attributes: The attributes with which the source was sealed, which are part of the digest: the source is
            unchanged only if the digest is equal.

    Raises:
        HoneError: As ``read_flavor``.
        ValueError: The attributes are not those of an artifact, or have another format than the files.
    """
    flavor = read_source(pulled, attributes)
    write = getattr(read_sources()[0][flavor.source][0], "write", None) or write_files
    write(flavor, pulled, files)
    if attributes.get("format") != flavor.format:
        raise ValueError(f"it is of the format {flavor.format}, and {attributes.get('format')!r:.80} was optimized")
    return Artifact(**attributes, digest=Manifest.measure(files, dict(attributes)).digest)
