"""A pulled source as an artifact that the learner opens in its own process, in the place of a winner."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.manifest import Manifest
from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.core.values.base import Json
from kedro_hone.core.workers.host.job import JobInput
from kedro_hone.learner.runtimes import describe_files
from kedro_hone.sources.catalogue import name_source
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

NOTES: Final = ("graph", "structure", "transformers", "sklearn")
"""What is kept of a description, as when a run pulls the source."""


def describe_source(pulled: Path, files: Path, *, like: Artifact) -> Artifact:
    """Write a source's files into a folder, and return the artifact that they are, as a run that pulls it seals it.

    Nothing is trusted: a source that is code of its author's, a pickle or native is refused. It is described by its
    runtime, in this process.

    Args:
        pulled: What the registry holds of the source.
        files: A new folder.
        like: The winner in whose place it is opened; it says how many threads there are.

    Raises:
        HoneError: As ``read_flavor``; ``model-unsupported``: no installed toolchain runs it.
        ImportError: Its runtime is not installed.
    """
    flavor = read_flavor(pulled, trust=frozenset())
    write_files(flavor, pulled, files)
    toolchain = next((one for one in read_catalogue().toolchains.values() if flavor.format in one.runs), None)
    if toolchain is None:
        raise HoneError(
            "model-unsupported",
            f"No toolchain runs models of the format {flavor.format}.",
            why="The source would take the place of the winner.",
            hint="See `kedro hone toolchains` for the formats that can be run.",
        )
    unread = JobInput(path=str(files), format=flavor.format, inputs=flavor.inputs, outputs=flavor.outputs)
    described = describe_files(toolchain, unread)
    specs = {
        side: tuple(map(TensorSpec.model_validate, described.get(side) or ())) or getattr(unread, side)
        for side in ("inputs", "outputs")
    }
    metadata: dict[str, Json] = {"interface": flavor.interface, **name_source(flavor)}
    metadata |= {"threads": like.metadata["threads"]} if "threads" in like.metadata else {}
    metadata |= {name: described[name] for name in NOTES if described.get(name)}
    artifact = Artifact(format=flavor.format, digest="", runtime=toolchain.name, metadata=metadata, **specs)
    return artifact.model_copy(update={"digest": Manifest.measure(files, artifact.manifest()).digest})
