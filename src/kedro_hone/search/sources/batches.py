"""Sources that take one fixed number of rows per call: the warning, and which shapes of a recipe they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.sessions.shapes import find_fixed_batch
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format
from kedro_hone.recipe.schema import Recipe

logger = open_logger(__name__)

_WAYS_OUT: Final[Mapping[Format, str]] = MappingProxyType(
    {
        "pytorch": "export it again with a dynamic batch (dynamic_shapes of torch.export), or log it by MLflow with an "
        "input_example of two rows or more: of one row the export makes a constant",
        "onnx": "export it again with a dynamic first dimension (dynamic_shapes of torch.onnx.export, dynamic=True of "
        "YOLO's)",
        "pytorch-module": "replace the number by batch in model.inputs, or log the model with an "
        "input_example of two rows or more",
    }
)
"""By the source's format: how to make it accept any number of rows."""

_OTHER_WAY: Final = "save it again with a first dimension that is free"


def check_batch(source: Artifact, recipe: Recipe) -> None:
    """Warn of a source that takes only one number of rows per call; immediately refuse shapes with another number.

    Raises:
        HoneError: ``recipe-invalid``: a shape of the recipe has another batch.
    """
    batch = find_fixed_batch(spec.shape for spec in source.inputs)
    if batch is None:
        return
    first = next(spec for spec in source.inputs if spec.shape[:1] == (batch,))
    rows = f"{batch} row{'s' if batch > 1 else ''}"
    shape = f"({', '.join(map(str, first.shape))})"
    way = _WAYS_OUT.get(source.format, _OTHER_WAY)
    if bad := next((one for one in recipe.all_shapes if one.batch != batch), None):
        raise HoneError(
            "recipe-invalid",
            f"The shape {bad.name!r} has a batch of {bad.batch}, and the model takes {rows} at a call and no other "
            "number.",
            why=f"The first dimension of its input {first.name!r} is fixed: {shape}.",
            hint=f"Make it the only batch, by `hone.shapes: {{batch{batch}: {{batch: {batch}}}}}`; or {way}.",
        )
    logger.warning(
        "warning   the model takes %s at a call and no other number, since its input %r is fixed to %s: no other batch "
        "is tried, and a winner takes no other either. To change that, %s.",
        rows,
        first.name,
        shape,
        way,
    )
