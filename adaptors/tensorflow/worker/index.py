"""The index of what XLA compiles: a model's specs, next to its SavedModel, which has a signature for each shape."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_FILE = "index.json"


def name_signature(shape: Json) -> str:
    """Return the name of a shape's function; no two shapes have the same."""
    return "shape_" + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}_", str(shape["name"]))


def write(folder: str | Path, specs: dict[str, list[Json]]) -> None:
    """Write the specs of a model's inputs and outputs."""
    Path(folder, _FILE).write_text(json.dumps(specs, indent=2) + "\n")


def read(folder: str | Path) -> dict[str, list[Json]]:
    """Return the specs of a model.

    Raises:
        ValueError: There is no index, or it does not say what it should.
    """
    try:
        said, names = json.loads(Path(folder, _FILE).read_text()), ("name", "dtype", "shape")
        return {side: [{name: spec[name] for name in names} for spec in said[side]] for side in ("inputs", "outputs")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{_FILE} cannot be read: {type(error).__name__}: {error}") from error
