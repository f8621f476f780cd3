"""What was found in a folder that a registry pulled: which source format, and which files become the artifact."""

from __future__ import annotations

import shutil
from pathlib import Path

from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.core.values.base import Format, Value


class Flavor(Value):
    """A source model's files, and what is known of them without opening them.

    Attributes:
        format: The format of the artifact that they become.
        files: The model's files: path in the pulled folder, and name in the artifact.
        code: Files of the user's project that belong to the model: absolute path, and name in the artifact.
        texts: Small files that are written into the artifact: name and content.
        source: The name of the source format that recognised them; filled in by ``read_flavor``.
        interface: ``pytorch`` (tensors in, tensors out) or ``onnx`` (arrays in, arrays out); the source format's own
            where ``detect`` leaves it empty.
        inputs: What the files say of the inputs; the signature's where ``detect`` leaves it empty.
        outputs: The same of the outputs.
        artifact: The sealed artifact, when the folder holds a winner of ours.
    """

    format: Format
    files: tuple[tuple[str, str], ...]
    code: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    source: str = ""
    interface: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    artifact: Artifact | None = None


def write_files(flavor: Flavor, pulled: Path, folder: Path) -> None:
    """Write the files of a source model under the names that its format asks for.

    Args:
        flavor: What was found.
        pulled: The folder that the registry pulled.
        folder: Where the files go; made when it does not exist.

    Raises:
        OSError: A file cannot be read or written.
    """
    copies = [*((pulled / path, name) for path, name in flavor.files), *((Path(p), name) for p, name in flavor.code)]
    folder.mkdir(parents=True, exist_ok=True)
    for path, name in copies:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
    for name, text in flavor.texts:
        (folder / name).write_text(text, encoding="utf-8")
