"""Models compiled for each shape: the index of their specs, a file for each shape, and a session for all.

A folder has ``index.json`` and, for each shape, ``model-<shape>`` with the toolchain's suffix. The index contains the
specs of the source's ``inputs`` and ``outputs``. Toolchains' workers import this module as
``hone_runtime.sessions.compiled``. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from hone_runtime.sessions import shapes

Json = dict[str, Any]
Key = tuple[tuple[int, ...], ...]

INDEX = "index.json"
SIDES = ("inputs", "outputs")
_FIELDS = ("name", "dtype", "shape")


def find_file(folder: str | Path, shape: Json, ending: str) -> Path:
    """Return the path of the file for a shape; ``ending`` begins with a dot.

    Raises:
        ValueError: The path would be in another folder.
    """
    name = str(shape["name"])
    if Path(name).name != name:
        raise ValueError(f"a shape's name is no file's name: {name[:80]!r}")
    return Path(folder, f"model-{name}{ending}")


def require_file(folder: str | Path, shape: Json, ending: str) -> Path:
    """Return the path of the existing file for a shape.

    Raises:
        ValueError: It is missing, or would be in another folder.
    """
    path = find_file(folder, shape, ending)
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    return path


def write_index(folder: str | Path, specs: dict[str, list[Json]]) -> None:
    """Write the specs of a model's ``inputs`` and ``outputs``."""
    Path(folder, INDEX).write_text(json.dumps({side: specs[side] for side in SIDES}, indent=2))


def read_index(folder: str | Path, *more: str) -> dict[str, list[Json]]:
    """Return the specs of a folder's model: name, dtype and shape, and the toolchain's additional keys in ``more``.

    Raises:
        ValueError: The index is missing or invalid.
    """
    fields = (*_FIELDS, *more)
    try:
        index = json.loads(Path(folder, INDEX).read_text())
        return {side: [{field: spec[field] for field in fields} for spec in index[side]] for side in SIDES}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{INDEX} cannot be read: {type(error).__name__}: {error}") from error


def find_key(specs: list[Json], sizes: Any) -> Key:
    """Return the shapes of the inputs, in their order, for given sizes of the dynamic dimensions, if there are any.

    Raises:
        ValueError: The sizes are invalid, or one is missing.
    """
    if any(isinstance(dim, str) for spec in specs for dim in spec["shape"]):
        found: Key = shapes.require_shapes(specs, sizes)
        return found
    return tuple(tuple(spec["shape"]) for spec in specs)


def fits(inputs: list[Json], sizes: Json) -> bool:
    """Whether a model can serve a shape: for a model with fixed sizes, a recipe may set only the rows."""
    batches = {spec["shape"][0] for spec in inputs if spec["shape"]}
    return batches <= {"batch", sizes["batch"]}


def open_shapes(artifact: Json, specs: list[Json], open_one: Callable[[Json, Key], Any]) -> Any:
    """Return a session for all shapes that a model was compiled for; each is opened once.

    ``open_one`` gets a shape and the shapes of the inputs. It returns an object with ``run``, from feeds to outputs by
    name.

    Raises:
        ValueError: There are no shapes, or as in ``open_one``.
    """
    fixed: dict[Key, Any] = {}
    for shape in artifact["static_shapes"]:
        key = find_key(specs, shape["sizes"])
        if key not in fixed:
            fixed[key] = open_one(shape, key)
    if not fixed:
        raise ValueError("the model does not list the shapes for which it was compiled")
    names = [spec["name"] for spec in specs]
    return shapes.ShapedSession(OtherShapes(sorted(fixed), names), fixed, names)


class OtherShapes:
    """The session for calls with shapes that the model was not compiled for."""

    def __init__(self, known: Collection[Key], names: list[str]) -> None:
        """Store the compiled shapes, and the names of the inputs."""
        self._known, self._names = known, names

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Refuse the call.

        Raises:
            ValueError: Always.
        """
        fed = tuple(tuple(feeds[name].shape) for name in self._names)
        raise ValueError(f"compiled for the shapes {self._known} and fed {fed}")
