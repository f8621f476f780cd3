"""Count the operators of loaded contestants by precision, after they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hone_runtime.text import open_logger
from hone_runtime.values.operators import Operators, make_operators
from hone_runtime.values.outcome import Failed
from kedro_hone.search.context import RunContext
from kedro_hone.search.race.launches import Contestant

logger = open_logger(__name__)

_MOST_SECONDS = 30.0
"""The time limit of a count: some runtimes open the model again, and run it once."""


def count_operators(contestants: Iterable[Contestant], context: RunContext) -> Iterator[Operators]:
    """Yield the counts of each contestant at each shape, those of an unable or failing runtime as not known.

    Each is resumed alone. Nothing may be timed in its worker afterwards.
    """
    for contestant in contestants:
        session = contestant.session
        session.resume()
        for shape, feeds in context.batches.items():
            found = session.count_operators(feeds, seconds=_MOST_SECONDS)
            if isinstance(found, Failed):
                logger.info("operators %s at %s: not counted: %s", contestant.id, shape, found.reason)
            yield make_operators(contestant.id, shape, None if isinstance(found, Failed) else found)
        session.pause()
