"""The study of one route's options: which to try next, by Optuna.

First each choice alone, next to the recipe's own options; then combinations, drawn from the density of the fast ones
that a tree-structured Parzen estimator keeps (J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NIPS
2011). It draws one and not the best of several: in a space of a few choices that would be the same one each time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import optuna
from optuna.trial import TrialState

from kedro_hone.core.values.base import Json

Key = tuple[str, str]
"""An adaptor and its option."""

_ASKED: Final = 20
"""How often the estimator is asked before it is taken to repeat itself, and the first that was not tried is tried."""


class Study:
    """Chooses options from a space, each combination once; the first of each option's values is the recipe's.

    Which come first depends on the space alone, and the later ones on the seed and on what is told of those before.
    """

    def __init__(self, space: Mapping[Key, Sequence[Json]], *, seed: int) -> None:
        self._space = {json.dumps(key): [json.dumps(value) for value in values] for key, values in space.items()}
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, n_ei_candidates=1)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._tried: set[tuple[str, ...]] = set()
        self._open: dict[tuple[str, ...], Any] = {}
        self._alone = self._list_alone()
        own = self._ask(self._fix({}))
        self._close(own, 0.0)

    @property
    def left(self) -> int:
        """How many combinations were not tried."""
        return math.prod(map(len, self._space.values())) - len(self._tried)

    def ask(self) -> dict[str, dict[str, Json]] | None:
        """Return the options to try next, as those that differ from the recipe's by adaptor; None when all were."""
        if not self.left:
            return None
        point = next(self._alone, None)
        return self._explain(self._ask(point) if point else self._sample())

    def list_waiting(self) -> list[dict[str, dict[str, Json]]]:
        """Return the choices that were not tried alone yet, in their order; they are not asked for any more."""
        return [self._explain(tuple(point.values())) for point in self._alone]

    def tell(self, changes: Mapping[str, Mapping[str, Json]], gain: float | None) -> None:
        """Tell what became of options that were asked for.

        Args:
            changes: As they were asked for.
            gain: The logarithm of how many times as fast as with the recipe's own options it is; None where it is no
                candidate: the estimator takes it for worse than all others.
        """
        pairs = ((adaptor, *pair) for adaptor, options in changes.items() for pair in options.items())
        given = {json.dumps([adaptor, option]): value for adaptor, option, value in pairs}
        self._close(tuple(self._fix(given).values()), gain)

    def _list_alone(self) -> Iterator[dict[str, str]]:
        return (self._fix({key: json.loads(value)}) for key, values in self._space.items() for value in values[1:])

    def _fix(self, changes: Mapping[str, Json]) -> dict[str, str]:
        """Return a whole point of the space, with the recipe's own options where nothing differs."""
        return {key: json.dumps(changes[key]) if key in changes else values[0] for key, values in self._space.items()}

    def _ask(self, point: Mapping[str, str]) -> tuple[str, ...]:
        self._study.enqueue_trial(dict(point))
        return self._draw()

    def _draw(self) -> tuple[str, ...]:
        trial = self._study.ask()
        point = tuple(trial.suggest_categorical(key, values) for key, values in self._space.items())
        if point in self._tried:
            self._study.tell(trial, state=TrialState.FAIL)  # which the estimator does not count
        else:
            self._open[point] = trial
            self._tried.add(point)
        return point

    def _sample(self) -> tuple[str, ...]:
        """Return a combination that was not tried."""
        for _ in range(_ASKED):
            before = len(self._tried)
            point = self._draw()
            if len(self._tried) > before:
                return point
        first = next(point for point in product(*self._space.values()) if point not in self._tried)
        return self._ask(dict(zip(self._space, first, strict=True)))

    def _close(self, point: tuple[str, ...], gain: float | None) -> None:
        trial = self._open.pop(point)
        self._study.tell(trial, gain, state=TrialState.PRUNED if gain is None else TrialState.COMPLETE)

    def _explain(self, point: tuple[str, ...]) -> dict[str, dict[str, Json]]:
        changes: dict[str, dict[str, Json]] = {}
        for (key, values), value in zip(self._space.items(), point, strict=True):
            if value != values[0]:
                adaptor, option = json.loads(key)
                changes.setdefault(adaptor, {})[option] = json.loads(value)
        return changes
