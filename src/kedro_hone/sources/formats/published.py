"""A winner of kedro-hone: an artifact with its manifest, bare or in the folder of a published model."""

from __future__ import annotations

from typing import Final

from hone_runtime.learner.manifest import read_artifact
from hone_runtime.values.manifest import MANIFEST, measure_files
from kedro_hone.sources.files import find_entry, find_relative_name, make_corrupt
from kedro_hone.sources.source_format import OURS, Flavor, Pulled, SourceFormat

LARGEST_MANIFEST: Final = 16 * 1024 * 1024
"""The largest manifest that is parsed, in bytes."""


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``artifact.json``, or the artifact in kedro-hone's own flavor.

    Each of the artifact's files is compared with its digest.

    Raises:
        HoneError: ``model-corrupt``: the manifest cannot be read, or a file differs from the published one.
    """
    folder = pulled.folder
    root = folder.resolve() if (folder / MANIFEST).is_file() else find_entry(pulled, OURS, "artifact")
    if root is None:
        if pulled.due:
            raise make_corrupt(folder, f"the registry lists it as the winner {pulled.due}, and it contains none")
        return None
    manifest = root / MANIFEST
    if manifest.is_file() and manifest.stat().st_size > LARGEST_MANIFEST:
        raise make_corrupt(manifest, f"it is larger than {LARGEST_MANIFEST} bytes")
    artifact = read_artifact(root, due=pulled.due)
    return Flavor(
        format=artifact.format,
        files=tuple(
            (find_relative_name(folder, root / name), name) for name in measure_files(root) if name != MANIFEST
        ),
        interface=str(artifact.metadata.get("interface", "onnx")),
        inputs=artifact.inputs,
        outputs=artifact.outputs,
    )


SOURCE_FORMAT = SourceFormat(name="published", noun="a winner of kedro-hone", detect=detect, order=20)
