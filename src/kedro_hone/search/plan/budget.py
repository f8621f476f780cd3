"""The budget of a search: how long building, validating and racing may go on, and what is not tried for it.

What takes longer than the time that is left is not started; at the end of the budget the best so far is confirmed.
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
from kedro_hone.search.setting import Setting

NAMED: Final = {"quick": 60.0, "default": 180.0, "thorough": math.inf}
"""Seconds, of a model of up to ``SMALL`` bytes; a larger one has more in proportion."""
SMALL: Final = 25 << 20
_LEAST_CONFIRMATION: Final = 600.0
_LONGEST_CONFIRMATION: Final = 3600.0
"""Seconds."""
INTERRUPTED: Final = "the search was interrupted"


class Phase(float, Enum):
    """A phase of the search, by the part of the budget after which nothing of it is started."""

    BUILD = 0.55
    VALIDATE = 0.7
    RACE = 0.8


_SHARES: Final = {
    Phase.BUILD: "building",
    Phase.VALIDATE: "building and validating",
    Phase.RACE: "building, validating and racing",
}
"""What the part of the budget up to the end of a phase is for."""


@dataclass(frozen=True)
class Budget:
    """The seconds of a search, and the run that counts them.

    What is left after the race is for the confirmation, which takes as long as its statistics need, up to a limit of
    its own (``bound_confirmation``).
    """

    seconds: float
    run: RunFolder

    def cut(self, limits: Limits) -> Limits:
        """Return the limits of a build that is started now: it is ended where validating must be over."""
        return replace(limits, seconds=min(limits.seconds, max(1.0, self.find_left(Phase.VALIDATE))))

    def explain_end(self, failed: Failed, limits: Limits, own: Limits) -> str:
        """Return why a build was ended, where the budget or a person ended it and not its own limits; else nothing."""
        if failed.failure is FailureClass.KILLED and self.run.is_stopped():
            return INTERRUPTED
        if failed.failure is FailureClass.TIME_OUT and limits.seconds < own.seconds:
            share = f"the first {Phase.VALIDATE.value:.0%} of the budget"
            return f"it was ended after {limits.seconds:.0f} s, when {share} were spent"
        return ""

    def find_left(self, phase: Phase) -> float:
        """Return how many seconds are left for a phase: infinite where the budget has no end, none once stopped."""
        return 0.0 if self.run.is_stopped() else self.seconds * phase.value - self.run.read_seconds()

    def find_reason(self, phase: Phase, expected: float | None) -> str | None:
        """Return why nothing is started that takes so many seconds, as far as known; None where it may start."""
        if self.run.is_stopped():
            return INTERRUPTED
        takes = "" if expected is None else f"it takes about {max(1.0, expected):.0f} s, and "
        if phase is not Phase.RACE and (ended := self.run.read_end()):  # what is valid by then is raced
            return f"{takes}{ended}"
        left = self.find_left(phase)
        if left > (expected or 0.0):
            return None
        share = f"the first {phase.value:.0%} of the budget of {self.seconds:g} s, which is for {_SHARES[phase]}"
        return f"{takes}{_say_left(left)} of {share}; raise `budget` in the recipe for more"


def _say_left(seconds: float) -> str:
    return f"{seconds:.0f} s are left" if seconds >= 1 else "nothing is left"


def choose_phase(adaptor: Adaptor, parent: Artifact, expected: float | None) -> Phase:
    """Return in which part of the budget a step may begin: what ends a route in that of the validations.

    So it is where its time is known: what was built before it, such as a quantized graph that took a minute, would be
    for nothing without its last seconds.
    """
    ends = adaptor.stage is Stage.COMPILE and bool(parent.steps) and expected is not None
    return Phase.VALIDATE if ends else Phase.BUILD


def start_budget(setting: Setting) -> Budget:
    """Return the recipe's budget for the source model; its seconds count from the first call of a run."""
    asked, run = setting.recipe.budget, setting.run
    run.begin_search()
    if not isinstance(asked, str):
        return Budget(asked, run)
    return Budget(_scale(asked, setting.store.measure(setting.source)), run)


def bound_confirmation(setting: Setting) -> float:
    """Return how many seconds the confirmation may take: the recipe's, or as long again as the budget is.

    It has ``_LEAST_CONFIRMATION`` at least, and an hour where the budget has no end. The search
    does not begin by it.
    """
    asked = setting.recipe.budget
    if (own := setting.recipe.confirm.seconds) is not None:
        return own
    size = setting.store.measure(setting.source) if setting.source.digest else 0
    seconds = _scale(asked, size) if isinstance(asked, str) else asked
    return max(_LEAST_CONFIRMATION, seconds) if math.isfinite(seconds) else _LONGEST_CONFIRMATION


def _scale(name: str, size: int) -> float:
    return NAMED[name] * max(1.0, size / SMALL)


def bound_validation(setting: Setting, *, insists: bool) -> Callable[[], str]:
    """Return a function that returns why a validation ends before its time, or an empty string.

    A person ends it; and so does the budget, unless the validation ``insists``. How long one takes that compiles when
    it is called is not known before.
    """
    budget = start_budget(setting)
    over = f"its validation was ended with the first {Phase.VALIDATE.value:.0%} of the budget, in which it began"

    def find_end() -> str:
        if setting.run.is_stopped():
            return INTERRUPTED
        return over if not insists and budget.find_left(Phase.VALIDATE) <= 0.0 else ""

    return find_end
