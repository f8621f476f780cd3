"""The forecast of each adaptor for one model on one machine: how long it takes, and how fast the model becomes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Final

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.host import Host
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.base import Value
from kedro_hone.core.store.steps import StepRecord
from kedro_hone.recipe.prior import Usual, find_usual

LEAST_RECORDS: Final = 2
STEP_SECONDS: Final = 5.0
VALIDATION_SECONDS: Final = 2.0
UNKNOWN_SPEED: Final = 1.0
"""The assumed speed of an adaptor without measurements, for the order of a search: a guess."""


class Forecast(Value):
    """The usual figures of the adaptors of a recipe, for one model on one machine.

    It determines the order of the candidates, and which steps are not started since they would not fit into the budget.
    It does not affect the result of a step or a measurement.
    """

    adaptors: dict[str, Usual] = Field({}, description="By the adaptor's name, where anything is known of it.")

    def find_seconds(self, adaptor: str) -> float | None:
        """Return how long a step is expected to take; None if nothing was measured."""
        return self._find(adaptor).seconds

    def find_validation(self, runtime: str) -> float | None:
        """Return how long a validation is expected to take, by the last adaptor of its route; None if unknown."""
        return self._find(runtime).validation

    def find_speed(self, route: Iterable[str]) -> float:
        """Return the expected speed of a route's candidate: that of its runtime times those of its compressors."""
        return math.prod(self._find(name).speed or UNKNOWN_SPEED for name in route)

    def knows_speed(self, route: Iterable[str]) -> bool:
        """Return whether the speeds of a route's runtime and compressors were all measured; converters have none."""
        known = read_catalogue().adaptors
        converters = {name for name, adaptor in known.items() if adaptor.stage is Stage.CONVERT}
        return all(self._find(name).speed is not None for name in route if name not in converters)

    def sum_seconds(self, steps: Iterable[str], *, runtime: str) -> float:
        """Return the expected seconds of some steps and of a validation, with defaults for unknown ones."""
        seconds = [self.find_seconds(name) for name in steps]
        validation = self.find_validation(runtime)
        building = sum(STEP_SECONDS if each is None else each for each in seconds)
        return building + (VALIDATION_SECONDS if validation is None else validation)

    def _find(self, adaptor: str) -> Usual:
        return self.adaptors.get(adaptor, Usual())


UNKNOWN = Forecast()
"""The forecast without any figures."""


def make_forecast(adaptors: Iterable[Adaptor], source: Artifact, host: Host, records: Iterable[StepRecord]) -> Forecast:
    """Return the forecast for a source model: the usual figures, and the medians of this model's own earlier steps.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    own = find_medians(source, records)
    found = {one.name: find_usual(one, source, host) for one in adaptors}
    found |= {name: found[name].model_copy(update={"seconds": own[name]}) for name in own.keys() & found.keys()}
    return Forecast(adaptors={name: usual for name, usual in sorted(found.items()) if usual != Usual()})


def find_medians(source: Artifact, records: Iterable[StepRecord]) -> dict[str, float]:
    """Return the median seconds of each adaptor's steps that began with this source and produced an artifact.

    Each has at least ``LEAST_RECORDS``: a single one may be from a busy machine.
    """
    steps: dict[str, list[StepRecord]] = {}
    for record in records:
        steps.setdefault(str(record.inputs.get("input")), []).append(record)
    seconds: dict[str, list[float]] = {}
    todo, seen = [source.digest], {source.digest}
    while todo:
        for record in steps.get(todo.pop(), ()):
            if not isinstance(record.outcome, Artifact):
                continue
            seconds.setdefault(record.facts.adaptor, []).append(record.facts.seconds)
            if record.outcome.digest not in seen:
                seen.add(record.outcome.digest)
                todo.append(record.outcome.digest)
    return {name: statistics.median(known) for name, known in seconds.items() if len(known) >= LEAST_RECORDS}
