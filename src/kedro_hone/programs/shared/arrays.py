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


def read_inputs(
    data: dict[str, Array],
    specs: list[dict[str, Any]],
    arrays: dict[str, str],
    *,
    kind: str,
    aliases: tuple[str, ...] = (),
) -> dict[str, Array]:
    """Return the array of each of the model's inputs (``specs``); a single input may have one of several usual names.

    Each may also be given by its number, as ``input_0``.

    Raises:
        UnreadableError: An input has no array; ``kind`` is what the message calls it.
    """
    feeds = {}
    names = [spec["name"] for spec in specs]
    for index, name in enumerate(names):
        number = f"input_{index}"
        named = {**arrays, name: arrays[number]} if number in arrays and name not in arrays else arrays
        known = (*(aliases if len(specs) == 1 else ()), *(() if number in names else (number,)))
        array = find_array(data, name, arrays=named, aliases=known)
        if array is None:
            advice = f"name it in the recipe: program.options.arrays: {{{name}: {next(iter(data), kind)}}}"
            raise UnreadableError(
                f"no {kind} for the model's input {name!r}; the data have {', '.join(data)}; {advice}"
            )
        feeds[name] = array
    return feeds


def find_output(outputs: dict[str, Array], name: str | None) -> Array:
    """Return the output that an option names, or the first one.

    Raises:
        LabelsMismatchError: The model has no output of that name.
    """
    name = name or next(iter(outputs))
    if name not in outputs:
        raise LabelsMismatchError(f"the option output names {name!r}; the model has {', '.join(outputs)}")
    return outputs[name]
