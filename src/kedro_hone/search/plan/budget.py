"""The budget of a search: the time limit of building, validating and racing, and the steps that it leaves out.

A step that takes longer than the remaining time is not started; at the end of the budget the best so far is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.context import RunContext

NAMED: Final = {"quick": 60.0, "default": 180.0, "thorough": math.inf}
"""In seconds, for a model of up to ``SMALL`` bytes; a larger one gets proportionally more."""
SMALL: Final = 25 << 20
_LEAST_CONFIRMATION: Final = 600.0
_LONGEST_CONFIRMATION: Final = 3600.0
"""In seconds."""
LEAST_TRAINING: Final = 40.0
"""In seconds: what must be left for a training to start. One with 34 s left was ended without a result."""
INTERRUPTED: Final = "the search was interrupted"


class Phase(float, Enum):
    """A phase of the search, with the share of the budget after which no step of it is started."""

    BUILD = 0.55
    VALIDATE = 0.7
    RACE = 0.8


_SHARES: Final = {
    Phase.BUILD: "building",
    Phase.VALIDATE: "building and validating",
    Phase.RACE: "building, validating and racing",
}
"""The purpose of the share of the budget up to the end of each phase."""


@dataclass(frozen=True)
class Budget:
    """The time limit of a search in seconds, and the run that counts them.

    The confirmation follows after the race; it takes as long as its statistics need, up to its own limit
    (``bound_confirmation``).
    """

    seconds: float
    run: RunFolder

    def cut(self, adaptor: Adaptor) -> Limits:
        """Return the limits of a step that is started now: it is ended at the end of its phase (``_find_end``)."""
        own = adaptor.toolchain.limits
        return replace(own, seconds=min(own.seconds, max(1.0, self.find_left(_find_end(adaptor)))))

    def explain_end(self, failed: Failed, limits: Limits, adaptor: Adaptor) -> str:
        """Return why the budget or a person, and not its own limits, ended a build; otherwise an empty text."""
        if failed.failure is FailureClass.KILLED and self.run.is_stopped():
            return INTERRUPTED
        if failed.failure is FailureClass.TIME_OUT and limits.seconds < adaptor.toolchain.limits.seconds:
            share = f"the first {_find_end(adaptor).value:.0%} of the budget"
            return f"it was ended after {limits.seconds:.0f} s, when {share} were spent"
        return ""

    def find_left(self, phase: Phase) -> float:
        """Return how many seconds are left for a phase: infinite if the budget is unlimited, 0 once stopped."""
        return 0.0 if self.run.is_stopped() else self.seconds * phase.value - self.run.read_seconds()

    def find_reason(self, phase: Phase, expected: float | None, *, trains: bool = False) -> str | None:
        """Return why a step must not start; None if it may.

        Args:
            phase: The phase that it belongs to.
            expected: Its expected seconds, those that it needs at least if it ``trains``; None if unknown.
            trains: Whether the step is a training.
        """
        if self.run.is_stopped():
            return INTERRUPTED
        needs = "a training needs at least" if trains else "it takes about"
        takes = "" if expected is None else f"{needs} {max(1.0, expected):.0f} s, and "
        if phase is not Phase.RACE and (ended := self.run.read_end()):  # valid candidates are still raced
            return f"{takes}{ended}"
        left = self.find_left(phase)
        if left > (expected or 0.0):
            return None
        share = f"the first {phase.value:.0%} of the budget of {self.seconds:g} s, which is for {_SHARES[phase]}"
        sooner = ", or name the adaptor in hone.adaptors: then it begins first" if trains else " for more"
        return f"{takes}{_format_left(left)} of {share}; raise hone.budget{sooner}"


def _format_left(seconds: float) -> str:
    return f"{seconds:.0f} s are left" if seconds >= 1 else "nothing is left"


def _find_end(adaptor: Adaptor) -> Phase:
    """Return the phase at whose end a step is ended.

    A training ends with the builds, so that its network can still be exported, compiled and validated.
    """
    return Phase.BUILD if adaptor.trains else Phase.VALIDATE


def choose_phase(adaptor: Adaptor, parent: Artifact, expected: float | None) -> Phase:
    """Return in which phase of the budget a step may begin: the last step of a route in that of the validations.

    This only applies if its time is known. It avoids that an earlier build, such as a quantized graph that took a
    minute, is wasted for lack of the last seconds. So may all steps after a training, which took longest.
    """
    if parent.is_trained and not adaptor.trains:
        return Phase.VALIDATE
    ends = adaptor.stage is Stage.COMPILE and bool(parent.steps) and expected is not None
    return Phase.VALIDATE if ends else Phase.BUILD


def expect_seconds(adaptor: Adaptor, known: float | None) -> float | None:
    """Return the seconds that a step needs from now on, from those that are known of the adaptor.

    A training fits itself into the time that is left, whatever earlier ones took, if it is long enough for some epochs.
    """
    return LEAST_TRAINING if adaptor.trains else known


def start_budget(context: RunContext) -> Budget:
    """Return the recipe's budget for the source model; its time starts with the first call in a run."""
    context.run.begin_search()
    named = isinstance(context.recipe.budget, str)
    return Budget(scale_budget(context.recipe, context.store.measure(context.source) if named else 0), context.run)


def scale_budget(recipe: Recipe, size: int) -> float:
    """Return a recipe's budget in seconds for a source model of so many bytes."""
    budget = recipe.budget
    return NAMED[budget] * max(1.0, size / SMALL) if isinstance(budget, str) else budget


def bound_confirmation(context: RunContext) -> float:
    """Return how many seconds the confirmation may take. Calling this does not start the search's time."""
    return limit_confirmation(context.recipe, context.store.measure(context.source) if context.source.digest else 0)


def limit_confirmation(recipe: Recipe, size: int) -> float:
    """Return how many seconds the confirmation may take: those in the recipe, or as many as the budget.

    It is at least ``_LEAST_CONFIRMATION``, and an hour if the budget is unlimited. The size of the source is in bytes.
    """
    if (own := recipe.confirm.seconds) is not None:
        return own
    seconds = scale_budget(recipe, size)
    return max(_LEAST_CONFIRMATION, seconds) if math.isfinite(seconds) else _LONGEST_CONFIRMATION


def bound_validation(context: RunContext, *, insists: bool) -> Callable[[], str]:
    """Return a function that returns why a validation ends early, or an empty string.

    A person ends it, and so does the budget, unless the validation ``insists``. If a model compiles when it is called,
    the time of its validation is not known in advance.
    """
    budget = start_budget(context)
    over = f"its validation was ended with the first {Phase.VALIDATE.value:.0%} of the budget, in which it began"

    def find_end() -> str:
        if context.run.is_stopped():
            return INTERRUPTED
        return over if not insists and budget.find_left(Phase.VALIDATE) <= 0.0 else ""

    return find_end
