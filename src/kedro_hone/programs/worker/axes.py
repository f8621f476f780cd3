"""Which axis of a model's inputs is that of the rows: the first one of each, otherwise the model must be wrapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ReportedError

_WRAP = "Wrap the model in one that takes the rows first and turns them to their axis, such as x.transpose(0, {axis}); "
_CONSTANT = "Make it a constant of the model: in a module around it, or in an ONNX file as an initializer of its name; "
_THEN = "then save the model again. See `source-not-rowwise` in the documentation."


def check_specs(specs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse inputs if their ``specs`` show that the first axis is not that of the rows.

    Raises:
        ReportedError: ``source-not-rowwise``.
    """
    for spec in specs:
        name, shape = spec["name"], tuple(spec["shape"])
        if not shape:
            raise _explain(name, "it is one number for all rows", _CONSTANT)
        if shape[0] != "batch" and "batch" in shape[1:]:
            axis = shape.index("batch")
            raise _explain(
                name, f"its shape is ({', '.join(map(str, shape))}): the rows are on axis {axis}", _WRAP, axis
            )


def explain_counts(shapes: Mapping[str, tuple[int, ...]], specs: Sequence[Mapping[str, Any]]) -> ReportedError | None:
    """Return the error for arrays with different numbers of rows but equal sizes on other axes, or None.

    Such an axis may have any size in the model's input, while the first axis has a fixed size.
    """
    free = {spec["name"]: _list_free(spec["shape"]) for spec in specs}
    sizes = [{shapes[name][axis] for axis in axes} for name, axes in free.items()]
    shared = set.intersection(*sizes) if sizes else set()
    if len(shared) != 1:
        return None
    count = shared.pop()
    for name, axes in free.items():
        axis = next(axis for axis in axes if shapes[name][axis] == count)
        if axis > 0:
            said = f"the data have {shapes[name]}: there are {count} rows on axis {axis}"
            return _explain(name, said, _WRAP, axis)
    return None


def _list_free(shape: Sequence[int | str]) -> list[int]:
    free = [axis for axis, dim in enumerate(shape) if isinstance(dim, str)]
    return free[:1] if free[:1] == [0] else free


def _explain(name: str, why: str, way: str, axis: int = 0) -> ReportedError:
    what = f"Input {name!r} of the source model has no row for each row of the data."
    return ReportedError("source-not-rowwise", what, why, hint=way.format(axis=axis) + _THEN)
