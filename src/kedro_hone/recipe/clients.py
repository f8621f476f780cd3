"""The clients of a recipe's shapes, which call the model at once, and the shapes that decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hone_runtime.values.artifact import Shape

CLIENTS: Final = "clients"
"""The key beside the sizes of a shape; in a recipe, no dimension of a model can have this name."""
MOST_CLIENTS: Final = 256
"""The most clients of a shape: each is a thread with inputs of its own."""

Sizes = dict[str, dict[str, int]]
"""Sizes by dimension, for each shape by its name."""


class Goal(NamedTuple):
    """What the search maximizes: an objective of ``combine_shapes``, and the shapes that count for it."""

    objective: str
    shapes: tuple[str, ...]


def simplify(shapes: Sizes) -> Sizes:
    """Return shapes without ``clients: 1``, which is the default: both are the same recipe.

    Raises:
        ValueError: There are more clients than ``MOST_CLIENTS``.
    """
    for name, sizes in shapes.items():
        if sizes.get(CLIENTS, 1) > MOST_CLIENTS:
            raise ValueError(f"shape {name!r} has {sizes[CLIENTS]:,} clients, and {MOST_CLIENTS} are the most")
    return {
        name: {key: size for key, size in sizes.items() if (key, size) != (CLIENTS, 1)}
        for name, sizes in shapes.items()
    }


class ShapeValues:
    """The sizes and the clients of a recipe's ``shapes``, apart."""

    shapes: Sizes

    @property
    def sizes(self) -> Sizes:
        """The sizes of each shape, without its clients."""
        return {name: {key: n for key, n in sizes.items() if key != CLIENTS} for name, sizes in self.shapes.items()}

    @property
    def clients(self) -> dict[str, int]:
        """How many clients call at once at each shape."""
        return {name: sizes.get(CLIENTS, 1) for name, sizes in self.shapes.items()}

    @property
    def all_shapes(self) -> tuple[Shape, ...]:
        """The shapes as values, in the recipe's order."""
        return tuple(Shape(name=name, sizes=sizes) for name, sizes in self.sizes.items())


def choose_goal(objective: str, clients: Mapping[str, int], *, budget: float | None) -> Goal:
    """Return what a recipe's objective maximizes.

    ``latency`` and ``throughput`` are the worst of the shapes with one client and with several. A shape of that name
    goes first. With a budget of latency, ``worst`` is over the shapes with several clients too.

    Raises:
        ValueError: The objective is unknown, or no shape counts for it.
    """
    several = tuple(name for name, count in clients.items() if count > 1)
    if budget is not None and not several:
        raise ValueError(f"race.latency_budget_ms needs a shape with several clients, {_EXAMPLE}")
    if objective in clients or objective == "mean":
        return Goal(objective, tuple(clients))
    if objective == "throughput" or (objective == "worst" and budget is not None):
        if not several:
            raise ValueError(f"race.objective throughput needs a shape with several clients, {_EXAMPLE}")
        return Goal("worst", several)
    if objective == "latency":
        single = tuple(name for name in clients if name not in several)
        if not single:
            raise ValueError("race.objective latency needs a shape with one client, and every shape has several")
        return Goal("worst", single)
    if objective != "worst":
        raise ValueError(
            f"race.objective {objective!r} is neither worst, mean, latency, throughput nor one of the shapes "
            f"{sorted(clients)}"
        )
    return Goal("worst", tuple(clients))


_EXAMPLE: Final = "such as `hone.shapes: {bulk: {batch: 64, clients: 4}}`"
