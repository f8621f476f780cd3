"""Sessions of fixed shapes: a call is of the session that was opened for the shapes of its inputs.

A runtime plans a graph of fixed dimensions once, when it is opened, and one of dynamic dimensions at its calls.
Toolchains' workers have it as ``hone_runtime.sessions.shapes``. Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Open = Callable[[dict[str, Any], Mapping[str, Sequence[int]] | None], Any]
    """Opens a job's model: for any shape, or for those of all inputs by name. ValueError: it does not fit them."""

LARGEST = 1 << 31
"""Sizes are smaller: runtimes count in 32 bits here and there."""

SHAPES = "compiled_shapes"
"""Where an artifact's metadata name those that it is opened for: sizes of dimensions by name, for each shape."""

MOST_SHAPES = 8
MOST_BYTES = 128 << 20
"""Of weights, which each session of fixed shapes holds again; in larger models planning is a small part of a call."""


class ShapedSession:
    """A session for each of some shapes of the inputs, and one for all others: arrays by name in and out, no cache.

    Attributes:
        fixed: The sessions of fixed shapes, by the shapes of the inputs.
        parts: Sessions that take any shape and each of which serves some calls; empty where all are of one model.
    """

    has_cache = False

    def __init__(
        self, default: Any, fixed: dict[tuple[tuple[int, ...], ...], Any], names: list[str], *, parts: Any = ()
    ) -> None:
        """Take the sessions: of fixed shapes by the shapes of the inputs of these names, in their order."""
        self._default, self.fixed, self._names, self.parts = default, fixed, tuple(names), tuple(parts)

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return every output by name, for inputs by name."""
        key = tuple([feeds[name].shape for name in self._names])
        return self.fixed.get(key, self._default).run(feeds)  # type: ignore[no-any-return]  # a session has no types

    def find(self, key: tuple[tuple[int, ...], ...]) -> Any:
        """Return the session that computes calls of these shapes of the inputs."""
        return self.fixed.get(key, self._default)


def find_fixed_batch(shapes: Iterable[Sequence[int | str]]) -> int | None:
    """Return the one number of rows that a model takes at a call, given the shapes of its inputs; None for any.

    It is fixed where all inputs have the same number as their first size. Where some have a name there, only 1 is taken
    for a number of rows: another one is more likely the size of another axis, as of a state (2, batch, 128). Inputs
    without dimensions have no rows, and one that has the others' name on another axis has its rows there.
    """
    known = [shape for shape in shapes if shape]
    names = {shape[0] for shape in known if isinstance(shape[0], str)}
    found = {shape[0] for shape in known if isinstance(shape[0], int) and not names.intersection(shape[1:])}
    only = next(iter(found)) if len(found) == 1 else None
    return only if isinstance(only, int) and only > 0 and (only == 1 or not names) else None


def find_whole_outputs(inputs: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the outputs that are one row as a whole, by name: of a model that takes one row at a call.

    A recognizer of texts may return (time, 1, letters). Outputs whose first size is 1, or a name that an input has
    there, have the rows first in any model.
    """
    if find_fixed_batch(spec["shape"] for spec in inputs) != 1:
        return set()
    rows = {1, *(spec["shape"][0] for spec in inputs if spec["shape"])}
    return {spec["name"] for spec in outputs if not spec["shape"] or spec["shape"][0] not in rows}


def find_shapes(inputs: list[dict[str, Any]], sizes: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return the shapes of the inputs, in their order, at some sizes of their dynamic dimensions, by name.

    None where a dimension has no size, or none is dynamic, or the sizes are no sizes.
    """
    if not isinstance(sizes, dict) or not all(type(size) is int and 0 < size < LARGEST for size in sizes.values()):
        return None
    names = {dim for spec in inputs for dim in spec["shape"] if isinstance(dim, str)}
    if not names or not names <= sizes.keys():
        return None
    return tuple(tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec["shape"]) for spec in inputs)


def require_shapes(inputs: list[dict[str, Any]], sizes: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs as ``find_shapes`` does.

    Raises:
        ValueError: There are none.
    """
    found = find_shapes(inputs, sizes)
    if found is None:
        raise ValueError(f"what is no shape of the inputs: {str(sizes)[:200]}")
    return found


def list_compiled(model: dict[str, Any]) -> list[Any]:
    """Return what the metadata of a model name as the shapes that it is opened for.

    Raises:
        ValueError: It is no list, or too long.
    """
    metadata = model.get("metadata", {})
    noted = metadata.get(SHAPES, []) if isinstance(metadata, dict) else None
    if not isinstance(noted, list) or len(noted) > MOST_SHAPES:
        raise ValueError(f"{SHAPES} is no list of at most {MOST_SHAPES} shapes: {str(noted)[:200]}")
    return noted


def open_shaped(job: dict[str, Any], open_one: Open, *, weights: int) -> Any:
    """Open a job's model for any shape, and again for each shape that its metadata name.

    ``weights`` are the bytes of its files.

    Raises:
        ValueError: As ``open_one``; or the metadata name too many shapes, or what is none, or some of a large model.
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
    """Return the recipe's shapes for which a job's model is to be opened; none where that does not pay.

    ``weights`` are the bytes of its files. A cache of keys and values grows, so its graph stays dynamic.
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
    """Return whether the graph can be opened for these shapes: a reshaping in it may be made for others."""
    try:
        open_one(job, given)
    except ValueError as error:
        print(f"not compiled for {given}: {error}")  # noqa: T201 - the step's log
        return False
    return True
