"""The bounds of a recipe's values: an accepted recipe does not fail after everything was measured."""

from __future__ import annotations

import math
import os
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from hone_runtime.values.base import Json, Value
from kedro_hone.recipe.clients import Sizes, simplify


class Section(Value):
    """Base of the recipe's sections: no number is infinite or NaN, since neither can be compared, sorted or stored."""

    model_config = ConfigDict(allow_inf_nan=False)


def _check_place(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a null character")
    if any(len(os.fsencode(part)) > 255 for part in text.split("/")):  # the limit of the file systems of Linux
        raise ValueError("it, or a part of it between slashes, is longer than 255 bytes")
    return text


def _check_finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        _check_finite(part)
    return value


def _check_shapes(shapes: Sizes) -> Sizes:
    for name, sizes in shapes.items():
        if not re.fullmatch(r"(?!\.)[A-Za-z0-9_.-]{1,100}", name):
            raise ValueError(
                f"shape {name!r} needs a name of letters, digits, `_`, `-` and `.` that does not start with a dot and "
                "has at most 100 letters: files are named after it"
            )
        if "batch" not in sizes:
            raise ValueError(f"shape {name!r} needs a batch")
    return simplify(shapes)


Place = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(_check_place)]
"""A path, a URI, or the name of a module, that is valid for the operating system."""
FiniteOptions = Annotated[dict[str, Json], AfterValidator(_check_finite)]
"""JSON values by name, without infinite numbers."""


def _check_ranges(ranges: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    for name, (low, high) in ranges.items():
        if low > high:
            raise ValueError(f"the range of {name!r} begins at {low:g}, which is more than its end, {high:g}")
    return ranges


Ranges = Annotated[dict[str, tuple[float, float]], AfterValidator(_check_ranges)]
"""The least and the largest value of inputs, by their names."""


def _leave_out(value: Any) -> Any:
    """Leave out the shapes that are null: an environment may need other shapes than those in ``conf/base``."""
    return {name: sizes for name, sizes in value.items() if sizes is not None} if isinstance(value, dict) else value


Shapes = Annotated[
    dict[str, dict[str, Annotated[int, Field(ge=1, le=2**24)]]],
    BeforeValidator(_leave_out),
    AfterValidator(_check_shapes),
]
"""Sizes by dimension, and the number of ``clients``, for each shape by its name."""


def split_names(value: object) -> object:
    """Parse a list from the command line, where it is one text."""
    named = isinstance(value, str) and value not in {"default", "all"}
    return tuple(part.strip() for part in str(value).split(",")) if named else value
