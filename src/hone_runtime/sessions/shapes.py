"""Sessions of fixed shapes: each call runs in the session that was opened for the shapes of its inputs.

A runtime plans a graph of fixed dimensions once, when it is opened, and a graph of dynamic dimensions at each call.
Toolchains' workers import it as ``hone_runtime.sessions.shapes``. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hone_runtime.sessions.operators import count_operators
from hone_runtime.sessions.routes import Key, Router, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Open = Callable[[dict[str, Any], Mapping[str, Sequence[int]] | None], Any]
    """Opens a job's model: for any shape, or for given shapes of all inputs. ValueError: the shapes do not fit it."""

LARGEST = 1 << 31
"""Limit of sizes: some parts of runtimes use 32-bit integers."""

SHAPES = "compiled_shapes"
"""The key in an artifact's metadata of the shapes that it is opened for: sizes of dimensions by name."""

MOST_SHAPES = 8
MOST_BYTES = 128 << 20
"""Limit of the weights in bytes, which each session of fixed shapes loads again; in larger models planning is a small
part of a call."""


class ShapedSession(Router):
    """One session for each of some input shapes, and one for all others: arrays by name in and out, no cache.

    Attributes:
        fixed: The sessions of fixed shapes, by the shapes of the inputs.
        parts: Sessions for any shape, each of which serves some calls; empty if all are of one model.
    """

    has_cache = False

    def __init__(
        self, default: Any, fixed: dict[tuple[tuple[int, ...], ...], Any], names: list[str], *, parts: Any = ()
    ) -> None:
        """Store the sessions; those of fixed shapes by the shapes of the named inputs, in their order."""
        super().__init__()
        self._default, self.fixed, self._names, self.parts = default, fixed, tuple(names), tuple(parts)

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return every output by name, for inputs by name."""
        key = tuple([feeds[name].shape for name in self._names])
        return self.fixed.get(key, self._default).run(feeds)  # type: ignore[no-any-return]  # a session has no types

    def count_operators(self, feeds: dict[str, Any]) -> dict[str, dict[str, int]] | None:
        """Return the counts of the session that serves these feeds; None if it cannot count."""
        return count_operators(self.find(tuple([feeds[name].shape for name in self._names])), feeds)

    def find_run(self, key: Key) -> Any:
        """Return the function that serves these shapes of the inputs."""
        return find_run(self.find(key), key)

    def find(self, key: tuple[tuple[int, ...], ...]) -> Any:
        """Return the session for these shapes of the inputs."""
        return self.fixed.get(key, self._default)


def find_fixed_batch(shapes: Iterable[Sequence[int | str]]) -> int | None:
    """Return the only number of rows that a model accepts in a call, from the shapes of its inputs; None for any.

    It is fixed if all inputs have the same number as their first size. If some have a name there, only 1 counts as a
    number of rows. Another number is more likely the size of another axis, as in a state (2, batch, 128). Inputs
    without dimensions have no rows, and an input with the others' name on another axis has its rows there.
    """
    known = [shape for shape in shapes if shape]
    names = {shape[0] for shape in known if isinstance(shape[0], str)}
    found = {shape[0] for shape in known if isinstance(shape[0], int) and not names.intersection(shape[1:])}
    only = next(iter(found)) if len(found) == 1 else None
    return only if isinstance(only, int) and only > 0 and (only == 1 or not names) else None


def find_whole_outputs(inputs: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of outputs that are one row as a whole, for a model that accepts one row per call.

    A text recognizer may return (time, 1, letters). Outputs whose first size is 1, or a name that an input has there,
    have the rows first in any model.
    """
    if find_fixed_batch(spec["shape"] for spec in inputs) != 1:
        return set()
    rows = {1, *(spec["shape"][0] for spec in inputs if spec["shape"])}
    return {spec["name"] for spec in outputs if not spec["shape"] or spec["shape"][0] not in rows}


def find_shapes(inputs: list[dict[str, Any]], sizes: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of the inputs, in their order, for given sizes of their dynamic dimensions, by name.

    None if a dimension has no size, if none is dynamic, or if the sizes are invalid.
    """
    if not isinstance(sizes, dict) or not all(type(size) is int and 0 < size < LARGEST for size in sizes.values()):
        return None
    names = {dim for spec in inputs for dim in spec["shape"] if isinstance(dim, str)}
    if not names or not names <= sizes.keys():
        return None
    return tuple(tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec["shape"]) for spec in inputs)


def require_shapes(inputs: list[dict[str, Any]], sizes: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs as ``find_shapes`` does, but never None.

    Raises:
        ValueError: ``find_shapes`` returns None.
    """
    found = find_shapes(inputs, sizes)
    if found is None:
        raise ValueError(f"what is not a shape of the inputs: {str(sizes)[:200]}")
    return found


def list_compiled(model: dict[str, Any]) -> list[Any]:
    """Return the shapes in a model's metadata that it is opened for.

    Raises:
        ValueError: The value is not a list, or is too long.
    """
    metadata = model.get("metadata", {})
    noted = metadata.get(SHAPES, []) if isinstance(metadata, dict) else None
    if not isinstance(noted, list) or len(noted) > MOST_SHAPES:
        raise ValueError(f"{SHAPES} is not a list of at most {MOST_SHAPES} shapes: {str(noted)[:200]}")
    return noted


def open_shaped(job: dict[str, Any], open_one: Open, *, weights: int) -> Any:
    """Open a job's model for any shape, and again for each shape in its metadata.

    ``weights`` is the size of its files in bytes.

    Raises:
        ValueError: As in ``open_one``; or the metadata have too many shapes, an invalid one, or any for a large model.
    """
    inputs = job["input"].get("inputs", [])
    keys = dict.fromkeys(require_shapes(inputs, sizes) for sizes in list_compiled(job["input"]))
    if keys and weights > MOST_BYTES:
        raise ValueError(f"{SHAPES} of a model of {weights >> 20} MiB, which would be opened for each of them")
    dynamic = open_one(job, None)
    if not keys:
        return dynamic
    fixed = {key: open_one(job, _name_shapes(inputs, key)) for key in keys}
    return ShapedSession(dynamic, fixed, [spec["name"] for spec in inputs])


def choose_shapes(job: dict[str, Any], open_one: Open, *, weights: int) -> list[dict[str, int]]:
    """Return the recipe's shapes for which a job's model should be opened; empty if that does not pay off.

    ``weights`` is the size of its files in bytes. A cache of keys and values grows, so its graph stays dynamic.
    """
    model = job["input"]
    if not job["options"]["fixed_shapes"] or weights > MOST_BYTES or "cache" in model.get("metadata", {}):
        return []
    sizes = [dict(shape["sizes"]) for shape in job["shapes"]]
    distinct = {key: each for each in sizes if (key := find_shapes(model["inputs"], each)) is not None}
    some = [*distinct.items()][:MOST_SHAPES]
    return [each for key, each in some if _fits(job, open_one, _name_shapes(model["inputs"], key))]


def _name_shapes(inputs: list[dict[str, Any]], key: tuple[tuple[int, ...], ...]) -> dict[str, tuple[int, ...]]:
    return {spec["name"]: key[place] for place, spec in enumerate(inputs)}


def _fits(job: dict[str, Any], open_one: Open, given: dict[str, tuple[int, ...]]) -> bool:
    """Return whether the graph can be opened for these shapes: a reshape in it may be made for others."""
    try:
        open_one(job, given)
    except ValueError as error:
        print(f"not compiled for {given}: {error}")  # noqa: T201 - the step's log
        return False
    return True
