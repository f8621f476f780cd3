"""How many launches: which finalists are decided, and whether more launches are needed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from hone_runtime.values.base import Value
from hone_runtime.values.measurement import Speedup
from kedro_hone.core.stats.intervals import Floats, interval_of_ratios
from kedro_hone.core.stats.levels import correct_for_looks, share_confidence
from kedro_hone.core.stats.speed import Faster, combine_shapes, find_noise_floor, is_faster

LOOKS = (7, 10, 13, 16, 20)
"""The numbers of launches after which the data are analysed. With these five the error of Student's t under Pocock's
bound stays within its nominal 2.5 % on each side (2.41 % in 400,000 simulated runs). Four exceed it a little (2.53 %);
looking after each launch makes the intervals wider (at seven launches 3.80 standard errors instead of 3.33)."""

Ratios = Mapping[str, Floats]
"""For each shape one ratio for each launch: the source's time over that of a model started at the same time."""


def check_looks(looks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the looks of a plan, as numbers of launches, if the correction of the level is valid for them.

    Raises:
        ValueError: They do not ascend, begin with a single launch, or are further and further apart.
    """
    if not looks or looks[0] < 2 or any(a >= b for a, b in pairwise(looks)):
        raise ValueError("looks ascend and begin with two launches at least")
    numbered = list(enumerate(looks, start=1))
    if any(n * j < m * i for i, n in numbered for j, m in numbered if i < j):
        raise ValueError("looks that are further and further apart are not covered by the correction of the level")
    return looks


class LaunchPlan(Value):
    """The plan of a confirmation, set before the first launch; the looks are explained at ``LOOKS``."""

    finalists: int = Field(ge=1, description="How many share the level: as many as at first, also when one fails.")
    threshold: float = Field(default=1.05, gt=0, description="The required speed-up.")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="Of all finalists and all looks together.")
    looks: Annotated[tuple[int, ...], AfterValidator(check_looks)] = LOOKS
    objective: str = Field("worst", description="`worst` (every shape must be faster), `mean`, or a shape's name.")
    weights: dict[str, float] | None = Field(None, description="The weight of each shape, for `mean`.")
    shapes: tuple[str, ...] = Field((), description="Those that `worst` is over; empty for all.")

    @property
    def level(self) -> float:
        """The level of one interval at one look: shared among the finalists, then corrected for the looks."""
        shared = share_confidence(self.confidence, finalists=self.finalists)
        return correct_for_looks(shared, looks=len(self.looks))


class Finding(Value):
    """The results of one finalist.

    The intervals are valid for all looks and finalists together at the plan's confidence, which is stored in them
    (repeated intervals: Jennison and Turnbull 1989, *J. R. Stat. Soc. B* 51:305-361); each is wider than one at that
    level alone. For the objective ``mean``, that is also the shape of the deciding interval.
    """

    verdict: Faster = Field(description="Faster by the threshold or not; undecided until the data tell.")
    launches: int = Field(description="On how many it rests; those after the deciding look are left out.")
    deciding: Speedup | None = Field(None, description="The verdict was made from it; None before launch 2.")
    speedups: tuple[Speedup, ...] = Field((), description="At every shape.")


class LaunchStep(Value):
    """The next launches."""

    findings: dict[str, Finding] = Field(description="What is known of each finalist, so far or for good.")
    undecided: tuple[str, ...] = Field(description="To be launched again, with source and control; empty at the end.")
    launches: int = Field(description="How many more rounds of launches until the next look; 0 at the end.")


def next_step(plan: LaunchPlan, *, control: Ratios, finalists: Mapping[str, Ratios]) -> LaunchStep:
    """Return which finalists are decided, and how many more launches are needed.

    A pure function of all launches so far: it may be called after each round, or only after the rounds that it
    requested, with the same result. The first look that decides a finalist is final: a decided finalist need not be
    launched again, and its ratios may end there. Its noise floor is computed from the first launches of the control
    (the source's ratios to a second start of itself, A/A), as many as the finalist has. It uses an interval with the
    plan's confidence, uncorrected, since it is a measure of noise and no error rate depends on it.

    Raises:
        ValueError: Shapes that differ, or ratios that are not positive and finite.
    """
    findings: dict[str, Finding] = {}
    missing: dict[str, int] = {}
    for name, ratios in finalists.items():
        if control.keys() != ratios.keys():
            raise ValueError(f"the finalist {name!r} was not measured at the shapes of the control")
        n = min(len(values) for each in (control, ratios) for values in each.values())
        findings[name] = _find(plan, n, control, ratios)
        later = [look - n for look in plan.looks if look > n]
        if later and findings[name].verdict is Faster.UNDECIDED:
            missing[name] = later[0]
    return LaunchStep(findings=findings, undecided=tuple(missing), launches=min(missing.values(), default=0))


def _find(plan: LaunchPlan, n: int, control: Ratios, ratios: Ratios) -> Finding:
    """The results at the first look that decides, otherwise at the last look that was reached."""
    reached = [look for look in plan.looks if look <= n]
    if not reached:
        early = Finding(verdict=Faster.UNDECIDED, launches=n) if n < 2 else _look(plan, n, control, ratios)
        return early.model_copy(update={"verdict": Faster.UNDECIDED})
    for look in reached:
        finding = _look(plan, look, control, ratios)
        if finding.verdict is not Faster.UNDECIDED:
            break
    return finding


def _look(plan: LaunchPlan, n: int, control: Ratios, ratios: Ratios) -> Finding:
    measured, reference = ({shape: values[:n] for shape, values in each.items()} for each in (ratios, control))

    def compare(shape: str, ratio: Floats, noise: Floats) -> Speedup:
        speed = interval_of_ratios(ratio, confidence=plan.level).model_copy(update={"confidence": plan.confidence})
        noise_floor = find_noise_floor(interval_of_ratios(noise, confidence=plan.confidence))
        return Speedup(shape=shape, ratio=speed, noise_floor=noise_floor, launches=n)

    speedups = tuple(compare(shape, values, reference[shape]) for shape, values in measured.items())
    judged = tuple(one for one in speedups if one.shape in (plan.shapes or measured))
    if plan.objective != "worst":  # the mean over the shapes, too, has one ratio for each launch
        combined = (combine_shapes(each, plan.objective, plan.weights) for each in (measured, reference))
        judged = (compare(plan.objective, *combined),)
    # Each shape may have the full level: all of them must be faster, and an error at one is no error of the verdict
    # unless it is wrong there (intersection-union test: Berger 1982, Technometrics 24:295-300).
    verdicts = {s.shape: is_faster(s.ratio, noise_floor=s.noise_floor, threshold=plan.threshold) for s in judged}
    verdict = next((v for v in (Faster.NO, Faster.UNDECIDED) if v in verdicts.values()), Faster.YES)
    held_by = [s for s in judged if verdicts[s.shape] is verdict]
    deciding = min(held_by, key=lambda s: s.ratio.low / s.noise_floor)
    return Finding(verdict=verdict, launches=n, deciding=deciding, speedups=speedups)
