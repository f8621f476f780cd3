"""Bind what a node's place in the graph says to its function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any


def bind(function: Callable[..., Any], **place: Any) -> Callable[..., Any]:
    """Return a function with some keyword arguments set.

    It keeps the function's name and type hints, which Kedro reads, and can be pickled, which ParallelRunner asks for.

    Args:
        function: A node's function.
        **place: What the graph knows: an adaptor's name, a route.

    Returns:
        The bound function.
    """
    bound = partial(function, **place)
    update_wrapper(bound, function)
    return bound
