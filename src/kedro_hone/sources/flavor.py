"""What was found in a folder that a registry pulled."""

from __future__ import annotations

from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.core.values.base import Format, Value


class Flavor(Value):
    """A source model's files.

    Attributes:
        format: What kind of files they are.
        files: Each file's path in the pulled folder, and its name in a directory of that format.
        interface: ``pytorch`` (tensors in, tensors out) or ``onnx`` (arrays in, arrays out).
        inputs: What the signature says of the inputs; empty when it says nothing.
        outputs: What it says of the outputs.
        artifact: The sealed artifact, when the folder holds a winner of ours.
    """

    format: Format
    files: tuple[tuple[str, str], ...]
    interface: str
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    artifact: Artifact | None = None
