"""Arrays of the data, found by the options of a program or by their usual names."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .errors import LabelsMismatchError, UnreadableError

Array = NDArray[Any]


def find_array(data: dict[str, Array], name: str, *, arrays: dict[str, str], aliases: tuple[str, ...]) -> Array | None:
    """Find the array of an input or of the target: as the options name it, else by its own name or a usual one."""
    if name in arrays:
        if arrays[name] not in data:
            raise UnreadableError(f"the option arrays names {arrays[name]!r}; the data have {', '.join(data)}")
        return data[arrays[name]]
    return next((data[known] for known in (name, *aliases) if known in data), None)


def find_output(outputs: dict[str, Array], name: str | None) -> Array:
    """Return the output that an option names, or the first one.

    Raises:
        LabelsMismatchError: The model has no output of that name.
    """
    name = name or next(iter(outputs))
    if name not in outputs:
        raise LabelsMismatchError(f"the option output names {name!r}; the model has {', '.join(outputs)}")
    return outputs[name]
