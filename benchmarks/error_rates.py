"""Measures how often the statistics err, on launches drawn from distributions with known parameters.

Run ``python benchmarks/error_rates.py`` (a minute) to print the tables. Everything is seeded and computed by the same
functions as in a run; ``tests/unit/core/stats/test_error_rates.py`` checks the promised rates.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats as distributions

from hone_runtime.values.measurement import Interval
from kedro_hone.core.stats.intervals import (
    interval_of_bootstrap,
    interval_of_mean,
    interval_of_paired_proportions,
    interval_of_ratios,
)
from kedro_hone.core.stats.plan import LOOKS, LaunchPlan, LaunchStep, next_step
from kedro_hone.core.stats.speed import Faster, find_noise_floor, is_faster

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


def draw_lognormal(spread: float) -> Draw:
    """Launches that differ by a lognormal factor.

    Args:
        spread: Standard deviation of the logarithm: 0.2 is about 20 % from launch to launch.

    Returns:
        A function that draws an array of times.
    """
    return lambda rng, size: rng.lognormal(0.0, spread, size)


def draw_modes(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Launches that fall into one of three modes, as eager PyTorch did on the demo CNN: 3.3, 4.9 or 5.5 ms.

    Args:
        rng: The generator.
        size: Series and launches.

    Returns:
        Times with 1 % of noise on top.
    """
    return rng.choice([3.3, 4.9, 5.5], size) * rng.lognormal(0.0, 0.01, size)


def confirm(plan: LaunchPlan, *, draw: Draw, gain: float, runs: int, seed: int) -> Iterator[LaunchStep]:
    """Simulates whole confirmations, from the first look to the last.

    Args:
        plan: The plan, with the number of finalists.
        draw: Draws the times of launches.
        gain: How many times faster every finalist truly is.
        runs: How many confirmations.
        seed: Of the generator.

    Yields:
        The last step of each: all finalists are decided, or all launches are used.
    """
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        source, control, *others = draw(rng, (2 + plan.finalists, plan.looks[-1]))
        finalists = {str(i): {"batch1": source / times * gain} for i, times in enumerate(others)}
        yield next_step(plan, control={"batch1": source / control}, finalists=finalists)


def find_rates(plan: LaunchPlan, *, draw: Draw, gain: float, runs: int, seed: int) -> dict[str, float]:
    """How often any finalist is judged faster, how often any is judged not faster, and how often the interval covers.

    Args:
        plan: As for ``confirm``.
        draw: As for ``confirm``.
        gain: As for ``confirm``.
        runs: As for ``confirm``.
        seed: As for ``confirm``.

    Returns:
        Shares of the runs: ``yes``, ``no``, ``covered`` (all finalists' intervals together), and the mean ``launches``.
    """
    counts: Counter[str] = Counter()
    for step in confirm(plan, draw=draw, gain=gain, runs=runs, seed=seed):
        findings = step.findings.values()
        counts["yes"] += any(finding.verdict is Faster.YES for finding in findings)
        counts["no"] += any(finding.verdict is Faster.NO for finding in findings)
        ratios = [finding.deciding.ratio for finding in findings if finding.deciding]
        counts["covered"] += all(ratio.low <= gain <= ratio.high for ratio in ratios)
        counts["launches"] += max(finding.launches for finding in findings)
    return {name: counts[name] / runs for name in ("yes", "no", "covered", "launches")}


def find_bare_error(plan: LaunchPlan, *, draw: Draw, runs: int, seed: int) -> float:
    """How often the lower end is above the true ratio at any look: the error without the noise floor.

    Args:
        plan: Its looks and level are used; for one finalist.
        draw: Draws the times of launches.
        runs: How many series.
        seed: Of the generator.

    Returns:
        The share of the runs; nominally half of one minus the plan's confidence.
    """
    rng = np.random.default_rng(seed)
    source, other = draw(rng, (runs, plan.looks[-1])), draw(rng, (runs, plan.looks[-1]))
    wrong = np.zeros(runs, dtype=bool)
    for run in range(runs):
        ends = (interval_of_ratios((source / other)[run, :n], confidence=plan.level).low for n in plan.looks)
        wrong[run] = any(low > 1 for low in ends)
    return float(wrong.mean())


def find_coverage(*, draw: Draw, launches: int, runs: int, seed: int, confidence: float = 0.95) -> float:
    """How often the interval of a fixed number of launches contains the true ratio.

    Args:
        draw: Draws the times of launches.
        launches: How many pairs.
        runs: How many intervals.
        seed: Of the generator.
        confidence: The nominal coverage.

    Returns:
        The share of the runs.
    """
    rng = np.random.default_rng(seed)
    source, other = draw(rng, (runs, launches)), draw(rng, (runs, launches))
    intervals = (interval_of_ratios(ratios, confidence=confidence) for ratios in source / other)
    return float(np.mean([interval.low <= 1 <= interval.high for interval in intervals]))


def find_power(*, draw: Draw, launches: int, threshold: float, runs: int, seed: int, gain: float = 1.1) -> float:
    """How often a true gain is judged faster after a fixed number of launches and one look.

    Args:
        draw: Draws the times of launches.
        launches: How many rounds of launches.
        threshold: The required speed-up.
        runs: How many trials.
        seed: Of the generator.
        gain: How many times faster the candidate truly is.

    Returns:
        The share of the runs.
    """
    rng = np.random.default_rng(seed)
    source, control, other = (draw(rng, (runs, launches)) for _ in range(3))
    called = 0
    for a, again, b in zip(source, control, other / gain, strict=True):
        noise_floor = find_noise_floor(interval_of_ratios(a / again, confidence=0.95))
        speed = interval_of_ratios(a / b, confidence=0.95)
        called += is_faster(speed, noise_floor=noise_floor, threshold=threshold) is Faster.YES
    return called / runs


@lru_cache(maxsize=20000)
def _tango(n: int, lost: int, gained: int) -> Interval:
    return interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=0.95)


def find_paired_rates(n: int, *, p_lost: float, p_gained: float) -> dict[str, float]:
    """Coverage and error of the interval of paired proportions at 95 %, by enumeration, not by simulation.

    Args:
        n: The number of rows.
        p_lost: The probability that a row is lost.
        p_gained: The probability that a row is gained.

    Returns:
        ``covered``: how often the interval contains the true drop; ``passed``: how often its upper end is below it,
        which is the error of a gate with a limit that the candidate just misses.
    """
    truth = p_lost - p_gained
    lost = np.arange(int(distributions.binom.ppf(1 - 1e-9, n, p_lost)) + 1)
    gained = np.arange(int(distributions.binom.ppf(1 - 1e-9, n, p_gained)) + 1)
    covered = passed = 0.0
    for b in lost[distributions.binom.pmf(lost, n, p_lost) > 1e-12]:
        chances = distributions.binom.pmf(b, n, p_lost) * distributions.binom.pmf(
            gained, n - b, p_gained / (1 - p_lost)
        )
        for c, chance in zip(gained, chances, strict=True):
            if chance > 1e-12:
                interval = _tango(n, int(b), int(c))
                covered += chance * (interval.low <= truth <= interval.high)
                passed += chance * (interval.high < truth)
    return {"covered": float(covered), "passed": float(passed)}


def find_metric_coverage(kind: str, *, n: int, runs: int, seed: int) -> float:
    """How often the 95 % interval of another metric contains the true value.

    Args:
        kind: ``mean`` (normal differences), ``sparse`` (2 % of the rows lose one whole point, the others nothing),
            or ``bootstrap`` (the mean of skewed, exponential differences, from 1,000 resamples).
        n: The number of rows.
        runs: How many intervals.
        seed: Of the generator.

    Returns:
        The share of the runs.
    """
    rng = np.random.default_rng(seed)
    covered = 0
    for _ in range(runs):
        if kind == "bootstrap":
            truth, rows = 1.0, rng.exponential(1.0, n)
            replicates = rows[rng.integers(0, n, (1000, n))].mean(axis=1)
            interval = interval_of_bootstrap(replicates, float(rows.mean()), confidence=0.95, n=n)
        elif kind == "sparse":
            truth, rows = 0.02, (rng.random(n) < 0.02).astype(np.float64)
            interval = interval_of_mean(rows, confidence=0.95)
        else:
            truth, rows = 0.0, rng.normal(0.0, 1.0, n)
            interval = interval_of_mean(rows, confidence=0.95)
        covered += interval.low <= truth <= interval.high
    return covered / runs


def _print_confirmations(runs: int) -> None:
    print(f"Confirming: looks at {', '.join(map(str, LOOKS))} launches, {runs} runs each; nominal error 2.5 %")
    columns = "".join(f"{name:>9}" for name in ("yes", "no", "covered", "launches"))
    print(f"{'launches spread by':<20}{'finalists':>9}{'threshold':>10}{'true':>6}{columns}")
    cases: list[tuple[str, Draw]] = [(f"{s:.0%}", draw_lognormal(s)) for s in (0.02, 0.05, 0.2)]
    cases.append(("3.3, 4.9 or 5.5 ms", draw_modes))
    for label, draw in cases:
        for finalists in (1, 3):
            for threshold, gain in ((1.0, 1.0), (1.05, 1.0), (1.05, 1.05), (1.05, 1.1), (1.05, 1.5), (1.05, 2.0)):
                plan = LaunchPlan(finalists=finalists, threshold=threshold)
                rates = find_rates(plan, draw=draw, gain=gain, runs=runs, seed=1)
                print(
                    f"{label:<20}{finalists:>9}{threshold:>10.2f}{gain:>6.2f}{rates['yes']:>9.2%}{rates['no']:>9.2%}"
                    f"{rates['covered']:>9.2%}{rates['launches']:>9.1f}"
                )
        error = find_bare_error(LaunchPlan(finalists=1), draw=draw, runs=runs, seed=2)
        print(f"{label:<20}lower end above the truth at any look, without the noise floor: {error:.2%}")


def _print_power(runs: int) -> None:
    print(f"\nPower for a true gain of 10 %, one look, {runs} runs each")
    print(f"{'spread':<8}{'threshold':>9}" + "".join(f"{n:>8} launches" for n in (5, 10, 20)))
    for spread in (0.01, 0.02, 0.05, 0.1, 0.2):
        for threshold in (1.0, 1.05):
            powers = (
                find_power(draw=draw_lognormal(spread), launches=n, threshold=threshold, runs=runs, seed=3)
                for n in (5, 10, 20)
            )
            print(f"{spread:<8.0%}{threshold:>9.2f}" + "".join(f"{power:>17.1%}" for power in powers))


def _print_metrics(runs: int) -> None:
    print("\nPaired proportions (Tango), 95 %, exact")
    print(f"{'rows':>6}{'p lost':>9}{'p gained':>9}{'covered':>9}{'passes a limit that it just misses':>36}")
    for n in (100, 300, 1000):
        for p_lost, p_gained in ((0.0, 0.0), (0.01, 0.0), (0.01, 0.01), (0.02, 0.01), (0.05, 0.02), (0.1, 0.1)):
            rates = find_paired_rates(n, p_lost=p_lost, p_gained=p_gained)
            print(f"{n:>6}{p_lost:>9.3f}{p_gained:>9.3f}{rates['covered']:>9.2%}{rates['passed']:>36.2%}")
    print("\nOther metrics, 95 %")
    for kind in ("mean", "sparse", "bootstrap"):
        for n in (20, 100, 500):
            print(f"{kind:<10}{n:>5} rows: covered {find_metric_coverage(kind, n=n, runs=runs, seed=4):.2%}")


def main(runs: int = 5000) -> None:
    """Prints all tables.

    Args:
        runs: How many simulated runs for each line.
    """
    _print_confirmations(runs)
    _print_power(runs)
    _print_metrics(min(runs, 2000))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
