"""Which candidates are not worth their time, from what is remembered of similar models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final

from kedro_hone.building.budget import start_budget
from kedro_hone.building.memory import LEAST_ROWS, Memory
from kedro_hone.building.routes import name_route, only_converts
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.values.measurement import Status, Validation
from kedro_hone.recipe.schema import Recipe

LEAST_GAIN: Final = 0.02
"""The least expected improvement of a candidate that is tried, as a share of the speed-up of the fastest valid one:
what a race can hardly tell from noise. Where the chance to win is a hundredth, it is far less."""

Route = tuple[str, ...]


def explain_hopeless(
    memory: Memory, routes: Iterable[Sequence[str]], rivals: Collection[Sequence[str]], *, recipe: Recipe
) -> str | None:
    """Return why none of some routes is worth its time, from what is remembered; None where one may be.

    A route is hopeless that is expected to gain less than ``LEAST_GAIN`` at each batch size over ``rivals``, the routes
    of candidates that were found valid: over one that only converts, since that holds the gate; or, of what does more
    than that, over as many as are confirmed, since a rival that was found valid may lose too much on the gate split.

    Nothing is hopeless where a gate is set that no validation looks at, such as a size, or where two shapes have one
    batch size, which the memory does not tell apart. Nor is a route with an adaptor that the recipe names.
    """
    batches = [shape.batch for shape in recipe.all_shapes]
    named = {*recipe.adaptors, *chain.from_iterable(recipe.routes)}
    if recipe.gates.ask_after_search or len({*batches}) < len(batches):
        return None
    behind: list[tuple[float, Route]] = []
    for route in map(tuple, routes):
        if named.intersection(route):
            return None
        for batch in batches:
            beaten = _find_beaten(memory, route, [*map(tuple, rivals)], batch, finalists=recipe.confirm.finalists)
            if beaten is None:
                return None
            behind.append(beaten)
    if not behind:
        return None
    most, rival = max(behind)
    return (
        f"on similar models it was {most:.2f} times as fast as {name_route(rival).replace('>', ' ▸ ')}, and it is "
        f"expected to gain less than {LEAST_GAIN:.0%} over that; `budget: thorough` tries it"
    )


def list_hopeless(
    validations: Sequence[Validation], memory: Memory, setting: Setting, held: Collection[str]
) -> dict[str, str]:
    """Return which valid candidates need not be measured next to those that ``held``, with the reason.

    Nobody where the budget has no end. Trials were probed already, and are measured: the memory of a route is of its
    default options.
    """
    if not start_budget(setting).ends:
        return {}
    valid = [one for one in validations if one.status is Status.MEASURED]
    rivals = [one.candidate.route for one in valid if one.publishable and one.candidate.id in held]
    explain = partial(explain_hopeless, memory, rivals=rivals, recipe=setting.recipe)
    usual = {one.candidate.id: one.candidate.route for one in valid if not one.candidate.options}
    return {name: reason for name, route in usual.items() if (reason := explain([route]))}


def _find_beaten(
    memory: Memory, route: Route, rivals: Sequence[Route], batch: int, *, finalists: int
) -> tuple[float, Route] | None:
    """Return how many times as fast as a rival that makes it hopeless a route is, and the rival; None where none does.

    Of as many as are confirmed it is the slowest.
    """
    exact = memory.find_best([one for one in rivals if only_converts(one)], batch, least=LEAST_ROWS)
    if exact is not None and (ratio := _compare(memory, route, tuple(exact), batch)) is not None:
        return ratio, tuple(exact)
    if only_converts(route):
        return None
    shares = {
        one: share.share for one in rivals if (share := memory.find_share(one, batch)) and share.rows >= LEAST_ROWS
    }
    fastest = sorted(shares, key=lambda one: (-shares[one], one))[:finalists]
    ratios = {one: ratio for one in fastest if (ratio := _compare(memory, route, one, batch)) is not None}
    return max((ratio, one) for one, ratio in ratios.items()) if len(ratios) == finalists else None


def _compare(memory: Memory, route: Route, rival: Route, batch: int) -> float | None:
    """Return how many times as fast a route is expected to be as a rival that it hardly gains over; else None."""
    mine, other = memory.find_share(route, batch), memory.find_share(rival, batch)
    if mine is None or mine.rows < LEAST_ROWS or other is None:
        return None
    if memory.find_gain(route, rival, batch) >= LEAST_GAIN * other.mean:
        return None
    ratio = memory.find_ratio(route, rival, batch)
    return mine.share / other.share if ratio is None else ratio.share
