"""The tuner: it chooses the operators of a model for int8, so that each metric of the recipe stays within its limit.

First all operators are quantized. Only if that fails is each operator scored, by the divergence of the outputs if it
alone is quantized, and a strategy searches for the largest set that holds the limit. Works as the tuning of
neural-compressor and AutoQuantize of ModelOpt do, without gradients.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

from .engine import Engine
from .search import ExhaustedError, Search, Settings
from .strategies import STRATEGIES

Json = dict[str, Any]

LEAST = 0.1
"""The smallest share of operators in int8 for which a result is worth a candidate."""
MOST_NAMES = 100
"""The most names of excluded operators in the notes."""


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning.

    Attributes:
        notes: The notes of the step: ``nothing_to_do``, ``refused`` or ``metadata``.
        excluded: The operators that stay in fp32; None if there is nothing to build.
    """

    notes: Json
    excluded: frozenset[str] | None = None


def tune(engine: Engine[Any], settings: Settings, *, strategy: str, plain: str) -> Tuned:
    """Choose the operators for int8.

    Args:
        engine: The toolchain's quantizer and runtime.
        settings: The limits.
        strategy: A name in ``STRATEGIES``.
        plain: The name of the adaptor that quantizes all operators.
    """
    count = len(engine.operators)
    if not count:
        return Tuned({"nothing_to_do": "the quantizer took no operator of this graph"})
    if strategy == "exhaustive" and 2**count - 1 > settings.evaluations:
        return Tuned(
            {
                "refused": f"the strategy exhaustive needs 2^{count} - 1 evaluations for {count} operators, and "
                f"{settings.evaluations} are allowed"
            }
        )
    search = Search(engine, settings)
    if odd := [name for name in settings.limits if not math.isfinite(search.base[name])]:
        return Tuned({"refused": f"{odd[0]} of the source is not a number on the search split"})
    with contextlib.suppress(ExhaustedError):
        if search.evaluate(engine.operators):
            drops = f"{search.explain(search.points[-1])} on the search split"
            return Tuned({"nothing_to_do": f"{plain} holds the gate as it is: {drops}"})
        STRATEGIES[strategy](search)
    return _conclude(search, strategy=strategy)


def _conclude(search: Search[Any], *, strategy: str) -> Tuned:
    best, count = search.best, len(search.names)
    if best is None or best.share < LEAST:
        most, whole = len(best.kept) if best else 0, search.points[0]
        return Tuned(
            {
                "refused": f"too few operators can be in int8: at most {most} of {count} operators hold the limit in "
                f"{len(search.points)} evaluations ({strategy}); all in int8, on the search split, "
                f"{search.explain(whole)}"
            }
        )
    excluded = [name for name in search.names if name not in best.kept]
    metric, *others = search.settings.limits
    tuned = {
        "strategy": strategy,
        "metric": metric,
        "limit": search.settings.limits[metric],
        "others": {name: search.settings.limits[name] for name in others},
        "evaluations": len(search.points),
        "operators": count,
        "scored": len(search.scores),
        "int8": len(best.kept),
        "excluded": excluded[:MOST_NAMES],
        "curve": [
            {
                "share": point.share,
                "drop": _round(point.drops[metric]),
                "others": {name: _round(point.drops[name]) for name in others},
                "time": _round(point.time),
            }
            for point in search.points
        ],
    }
    return Tuned({"metadata": {"tuned": tuned}}, frozenset(excluded))


def _round(value: float) -> float | None:
    """Return a number with six digits; None if it is not finite, which JSON cannot represent."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
