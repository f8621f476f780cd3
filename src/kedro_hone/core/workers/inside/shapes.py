"""Sessions of fixed shapes: a call is of the session that was opened for the shapes of its inputs.

Toolchains' workers have it as ``hone_loading.load_part("shapes")``. Standard library only.
"""

from __future__ import annotations

from typing import Any

LARGEST = 1 << 31
"""Sizes are smaller: runtimes count in 32 bits here and there."""


class ShapedSession:
    """A session for each of some shapes of the inputs, and one for all others: arrays by name in and out, no cache.

    Attributes:
        parts: Sessions that take any shape and each of which serves some calls; empty where all are of one model.
    """

    has_cache = False

    def __init__(
        self, default: Any, fixed: dict[tuple[tuple[int, ...], ...], Any], names: list[str], *, parts: Any = ()
    ) -> None:
        """Take the sessions: of fixed shapes by the shapes of the inputs of these names, in their order."""
        self._default, self._fixed, self._names, self.parts = default, fixed, tuple(names), tuple(parts)

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Return every output by name, for inputs by name."""
        key = tuple([feeds[name].shape for name in self._names])
        return self._fixed.get(key, self._default).run(feeds)  # type: ignore[no-any-return]  # a session has no types


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
