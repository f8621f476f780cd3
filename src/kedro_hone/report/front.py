"""The Pareto front: candidates that no other candidate beats in speed, quality and size at once."""

from __future__ import annotations

from collections.abc import Iterable

from hone_runtime.values.measurement import RACED
from kedro_hone.report.records import CandidateRecord


def find_front(candidates: Iterable[CandidateRecord]) -> tuple[str, ...]:
    """Return the ids of the Pareto-optimal candidates by speed, quality drop and size, fastest first.

    Only raced candidates that may be published count, and not the source. Speed is the race's objective, quality is
    that on the search split. These are point estimates from the data that also selected the candidates: if a person
    chooses a candidate from the front, it is measured again.
    """
    points = {one.id: point for one in candidates if one.publishable and (point := _locate(one))}
    front = [name for name, point in points.items() if not any(_beats(other, point) for other in points.values())]
    return tuple(sorted(front, key=lambda name: (*points[name], name)))


def _locate(candidate: CandidateRecord) -> tuple[float, float, float] | None:
    """Return the values to minimize: the speed-up's reciprocal, the drop and the bytes; None if one is unknown."""
    speedup, quality, size = candidate.speedup, candidate.quality, candidate.size_bytes
    if candidate.status not in RACED or speedup is None or quality is None or size is None:
        return None
    return 1 / speedup.estimate, quality.drop.estimate, float(size)


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
