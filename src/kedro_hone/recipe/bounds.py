"""The bounds of a recipe's values: a recipe that is taken does not fail after everything was measured."""

from __future__ import annotations

import math
import os
import re
from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field

from kedro_hone.core.values.base import Json, Value

LONGEST_NAME: Final = 255
"""Bytes of one part of a path, and so of what becomes one: the limit of the file systems of Linux."""
LONGEST_SHAPE: Final = 100
"""Letters of a shape's name: names of files hold it with other words."""
LARGEST_SIZE: Final = 2**24
"""Of a batch, and of any other size of a shape."""


class Section(Value):
    """Base of the recipe's sections: no number is infinite or NaN, since neither can be compared, sorted or kept."""

    model_config = ConfigDict(allow_inf_nan=False)


def check_place(text: str) -> str:
    """Return a path, a URI or the name of a module that the operating system can be asked for.

    Raises:
        ValueError: It holds a null character, or a part of it is longer than a file's name may be.
    """
    if "\0" in text:
        raise ValueError("it holds a null character")
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in text.split("/")):
        raise ValueError(f"it, or a part of it between slashes, is longer than {LONGEST_NAME} bytes")
    return text


def check_finite(value: Json) -> Json:
    """Return a JSON value without a number in it that is infinite or NaN.

    Raises:
        ValueError: It holds one.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for part in parts:
        check_finite(part)
    return value


def check_shapes(shapes: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return shapes by name whose names can be files' and whose sizes can be computed with.

    Raises:
        ValueError: The name or a size of a shape is not such a one.
    """
    for name, sizes in shapes.items():
        if not re.fullmatch(r"(?!\.)[A-Za-z0-9_.-]+", name) or len(name) > LONGEST_SHAPE:
            raise ValueError(
                f"shape {name!r} needs a name of letters, digits, `_`, `-` and `.` that does not start with a dot and "
                f"has at most {LONGEST_SHAPE} letters: files are named after it"
            )
        if sizes.get("batch", 0) < 1 or min(sizes.values()) < 1:
            raise ValueError(f"shape {name!r} needs a batch of at least 1, and no size below 1")
        if large := [size for size in sizes if sizes[size] > LARGEST_SIZE]:
            raise ValueError(f"shape {name!r}: {large[0]} is more than {LARGEST_SIZE:,}")
    return shapes


Place = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(check_place)]
"""A path, a URI, or the name of a module."""
FiniteOptions = Annotated[dict[str, Json], AfterValidator(check_finite)]
"""JSON values by name, without infinite numbers."""
Shapes = Annotated[dict[str, dict[str, int]], AfterValidator(check_shapes)]
"""Sizes by dimension, for each shape by its name."""
