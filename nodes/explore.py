"""Explore: other options of the most promising routes, while the budget lasts; what is worth a place goes to the race.

Each trial is a candidate as any other: built step by step, kept in the store under the same kind of key, validated by
the same code. Then a few rounds against the best so far decide whether it races.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kedro_hone.building.budget import Budget, Phase, start_budget
from kedro_hone.building.memory import Memory
from kedro_hone.building.routes import Changes
from kedro_hone.building.trials import Route, build_trial, find_route
from kedro_hone.building.validation import validate_candidate
from kedro_hone.comparing.probe import ROUNDS, compare, measure_together
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.timings import Timings
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import BUDGET, Exploration, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Refused
from kedro_hone.core.values.samples import Reference
from kedro_hone.recipe.plan import Plan, make_plan

if TYPE_CHECKING:
    from kedro_hone.building.study import Study

logger = open_logger(__name__)

CONTENDERS: Final = 6
"""How many candidates are probed with the recipe's options, those first that were fastest on similar models."""
ROUTES: Final = 3
"""Of how many of them other options are tried."""
REACH: Final = 0.5
"""What share of the fastest one's speed a candidate must have for that."""
TRIALS: Final = 12
"""How many trials there are at most where the budget has an end."""


def explore(*, setting: Setting, reference: Reference, **validations: Validation) -> Exploration:
    """Try other options of the most promising candidates, and return what became of each trial."""
    if setting.recipe.budget == "quick":
        return Exploration(reason="the budget is quick")
    search = Search(setting, reference, make_plan(setting.recipe), start_budget(setting))
    contenders = find_contenders(validations, setting)
    reason = search.find_end() if contenders else "no candidate is valid, or none fits into race.memory_mb"
    if not reason:
        search.begin(contenders)
        reason = search.run()
    tried = sum(one.slug != BUDGET for one in search.made)
    logger.info("explored  %d trials%s", tried, f": {reason}" if reason else "")
    return Exploration(
        validations=tuple(search.made),
        seconds=search.seconds,
        workers=search.workers,
        left=sum(study.left for _, study in search.studies),
        reason=reason,
    )


def find_contenders(validations: Mapping[str, Validation], setting: Setting) -> dict[str, Candidate]:
    """Return the valid candidates that may be fastest, by id: those first that were on similar models.

    Of candidates with the same artifact, the one with the shortest route counts, as in the race. They are measured
    together, so there are only as many as fit into ``race.memory_mb``.
    """
    memory = Memory(setting.store, setting.source, read_host(), setting.recipe)
    valid = [one.candidate for one in validations.values() if one.status is Status.MEASURED and one.publishable]
    ordered = sorted(valid, key=lambda one: (len(one.route), one.id), reverse=True)
    unlike = {one.outcome.digest: one for one in ordered if isinstance(one.outcome, Artifact)}
    shares = {one.id: share.share for one in unlike.values() if (share := memory.find_share(one.route))}
    ranked = sorted(unlike.values(), key=lambda one: (-shares.get(one.id, 0.0), len(one.route), one.id))
    peaks = {one.candidate.id: one.peak_memory_bytes or one.size_bytes or 0 for one in validations.values()}
    free, fitting = setting.recipe.race.memory_mb << 20, dict[str, Candidate]()
    for one in ranked[:CONTENDERS]:
        if peaks[one.id] <= free:
            free -= peaks[one.id]
            fitting[one.id] = one
    return fitting


@dataclass
class Search:
    """The trials of one run, and the best candidate so far.

    Speeds are logarithms, over that of the fastest contender.
    """

    setting: Setting
    reference: Reference
    plan: Plan
    budget: Budget
    made: list[Validation] = field(default_factory=list)
    studies: list[tuple[Route, Study]] = field(default_factory=list)
    seconds: float = 0.0
    workers: int = 0
    _speeds: dict[str, float] = field(default_factory=dict)
    _artifacts: dict[str, Artifact] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)  # which candidate has an artifact, by its digest

    def begin(self, contenders: Mapping[str, Candidate]) -> None:
        """Measure the contenders together, and open a study for each of the fastest that leaves anything open."""
        from kedro_hone.building.study import Study  # noqa: PLC0415 - Optuna takes a sixth of the start of each command

        host = read_host()
        found = {name: find_route(one, self.plan, host) for name, one in contenders.items()}
        artifacts = {name: one.outcome for name, one in contenders.items() if isinstance(one.outcome, Artifact)}
        if not any(found.values()):
            return
        timings = self._measure(artifacts)
        for name, failed in timings.failures.items():
            logger.warning("failed    %s in the probe: %s: %s", name, failed.by, failed.reason)
        running = {name: artifact for name, artifact in artifacts.items() if name not in timings.failures}
        first = next(iter(running), "")
        for name, artifact in running.items():
            probed = compare(name, first, timings, self.setting.recipe)
            if probed is not None:
                self._speeds[name] = math.log(probed.speed.estimate)
                self._artifacts[name], self._known[artifact.digest] = artifact, name
        least = max(self._speeds.values(), default=0.0) + math.log(REACH)
        for name in sorted(self._speeds, key=lambda name: -self._speeds[name]):
            route = found[name]
            if route is not None and self._speeds[name] >= least and len(self.studies) < ROUTES:
                self.studies.append((route, Study(route.space, seed=self.setting.recipe.seed)))

    def run(self) -> str:
        """Try one combination of each route in turn; return why not all were tried, or an empty string."""
        going = [*self.studies]
        while going:
            for route, study in tuple(going):
                if reason := self.find_end():
                    self._leave_out(reason)
                    return reason
                changes = study.ask()
                if changes is None:
                    going.remove((route, study))
                else:
                    study.tell(changes, self._try(route, changes))
        return ""

    def find_end(self) -> str:
        """Return why no further trial begins, or an empty string."""
        if self.budget.ends and len(self.made) >= TRIALS:
            return f"{TRIALS} trials were made; `budget: thorough` makes all"
        return self.budget.find_reason(Phase.VALIDATE, None) or ""

    def _leave_out(self, reason: str) -> None:
        """Note each choice that was not tried alone yet; combinations of them are only counted."""
        for route, study in self.studies:
            for changes in study.list_waiting():
                kept = {adaptor: dict(options) for adaptor, options in changes.items()}
                outcome = Refused(by="explore", slug=BUDGET, reason=reason)
                name, path = route.name(changes), route.candidate.route
                candidate = Candidate(id=name, route=path, outcome=outcome, options=kept)
                self.made.append(validate_candidate(candidate, self.setting, reference=self.reference))

    def _try(self, route: Route, changes: Changes) -> float | None:
        """Build, validate and probe a trial; return the logarithm of its speed over its route's own, None where none.

        It is kept with the validation's result; a hopeless one as dropped.
        """
        trial = build_trial(route, changes, self.plan, self.setting, reference=self.reference)
        validation = validate_candidate(trial, self.setting, reference=self.reference)
        own = self._speeds[route.candidate.id]
        if validation.status is not Status.MEASURED or not isinstance(trial.outcome, Artifact):
            self.made.append(validation)
            return None
        if (same := self._known.get(trial.outcome.digest)) is not None:
            reason = f"the same artifact as {same}"
            refused = {"status": Status.REFUSED, "slug": "nothing-to-do", "reason": reason}
            self.made.append(validation.model_copy(update=refused))
            return self._speeds[same] - own if same in self._speeds else None
        self._known[trial.outcome.digest] = trial.id
        left, speed = self._probe(trial.id, trial.outcome)
        self.made.append(validation.model_copy(update=left))
        return None if speed is None else speed - own

    def _probe(self, name: str, artifact: Artifact) -> tuple[dict[str, object], float | None]:
        """Measure a trial against the best so far; return what keeps it from the race, and its speed where known."""
        best = max(self._artifacts, key=lambda one: self._speeds[one])
        timings = self._measure({best: self._artifacts[best], name: artifact})
        if (failed := timings.failures.get(name)) is not None:
            return {"status": Status.FAILED, "slug": failed.failure, "reason": f"{failed.by}: {failed.reason}"}, None
        if best in timings.failures:
            del self._artifacts[best]  # its speed stays, since those of others are over it
            if self._artifacts:
                return self._probe(name, artifact)
            self._artifacts[name], self._speeds[name] = artifact, self._speeds[best]  # a guess, to go on from
        probed = compare(name, best, timings, self.setting.recipe)
        if probed is None:  # the search was stopped, or the best one failed: nothing is known against the trial
            return {}, None
        ratio = probed.speed.estimate
        self._speeds[name] = self._speeds[best] + math.log(ratio)
        self._artifacts[name] = artifact
        logger.info("probed    %s: %.2f times as fast as %s", name, ratio, best)
        if not probed.hopeless:
            return {}, self._speeds[name]
        reason = (
            f"the probe dropped it: {ratio:.2f} times as fast as {best} in {ROUNDS} rounds, and slower at each shape"
        )
        return {"status": Status.DROPPED, "slug": "probe", "reason": reason}, self._speeds[name]

    def _measure(self, artifacts: Mapping[str, Artifact]) -> Timings:
        timings = Timings()
        self.seconds += measure_together(artifacts, self.setting, timings)
        self.workers += timings.workers
        return timings
