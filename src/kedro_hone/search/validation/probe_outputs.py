"""A candidate's outputs for the probes that the source accepted, and their judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

import numpy as np

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.conversion.distances import TOLERANCE, has_ties, is_like
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import ProbeRows, Reference
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.recipe.capabilities import find_rounding
from kedro_hone.search.comparison.agreement import Difference, Fault, compare_outputs, explain_rows
from kedro_hone.search.comparison.arrays import read_arrays
from kedro_hone.search.comparison.crops import has_fixed_batch
from kedro_hone.search.comparison.probes import Arrays
from kedro_hone.search.context import RunContext
from kedro_hone.search.validation.probe_runs import run_candidate

FLIPS: Final = 0.01
"""The share of rows in which a route that only converts may differ because a threshold amplifies rounding."""

OWN_ERRORS: Final = 3.0
"""How many times farther from the source's outputs than on the splits a lossy candidate may be for probes."""

LEAST_ERROR, LARGEST_ERROR = 0.35, 0.7
"""The bounds of that limit, relative to the length of the source's outputs: zeros have a distance of 1, unrelated
outputs 1.4."""

_UNUSUAL: Final = " (rows that no tokenizer makes)"
_UNLIKE: Final = " (rows unlike the data, and it was trained)"
_TIED: Final = ". All its rows are the same, and no other number differs: of equal scores any may be the largest"

MOST_LIMITS: Final = 3
"""The most limits listed for a candidate."""


Found = Mapping[str, Sequence[Difference]]
"""The differences of all outputs, by the batch size or the shape."""


class Shares(TypedDict):
    """The shares allowed in ``find_disagreement``."""

    exact: float | None
    discrete: float
    unscored: float


def choose_shares(context: RunContext, *, exact: bool) -> Shares:
    """Return the share of rows in which outputs may differ, by the recipe or by the kind of the source."""
    gates, flips = context.recipe.gates, "sklearn" in context.source.metadata
    share = gates.conversion
    floats = share if share is not None else FLIPS if flips else 0.0
    return Shares(
        exact=floats if exact else None,
        discrete=share if share is not None else FLIPS,
        unscored=gates.unscored,
    )


def find_share(one: Difference, shares: Shares) -> float:
    """Return the share of rows in which an output of a route that only converts may differ."""
    return shares["discrete"] if one.discrete else shares["exact"] or 0.0


def list_flips(found: Found, *, exact: bool) -> list[str]:
    """Return where a route that only converts differs by more than rounding, but may, one sentence for each output."""
    rows: dict[str, str] = {}
    for where, differences in found.items() if exact else ():
        for one in differences:
            if one.rows:
                rows.setdefault(one.output, f"at {where}: {explain_rows(one)}")
    return [*rows.values()]


def _find_usual(found: Found) -> dict[str, Difference]:
    """Return the differences of each output on the splits, at the batch size with the largest usual distance."""
    usual: dict[str, Difference] = {}
    for one in (one for each in found.values() for one in each):
        if one.output not in usual or one.usual > usual[one.output].usual:
            usual[one.output] = one
    return usual


def _is_tied(feeds: Arrays, due: Arrays, made: Arrays, *, usual: Arrays) -> bool:
    """Return whether the largest score may be a tie: if all rows are the same, such as zeros, scores are equal.

    There must be at least two rows, and an output in which the largest number occurs twice in each row. Integer outputs
    must be in the range of those for ``usual`` rows, like indices: a count that overflows is not a tie.
    """
    same = (
        np.array_equal(array, np.broadcast_to(array[:1], array.shape), equal_nan=array.dtype.kind in "fc")
        for array in feeds.values()
    )
    if any(len(array) < 2 for array in feeds.values()) or not all(same):
        return False
    if not has_ties(due.values(), rounding=TOLERANCE):
        return False
    whole = [name for name, array in due.items() if array.dtype.kind in "iu" and array.size]
    bounds = {name: (int(usual[name].min()), int(usual[name].max())) for name in whole}
    return all(is_like(side[name], *bounds[name]) for name in whole for side in (due, made))


@dataclass(frozen=True, kw_only=True)
class Probed:
    """The results of the probes.

    Attributes:
        wrong: The probe with wrong outputs, or an empty string.
        limits: The probes on which it raises, or differs although agreement is not required.
    """

    wrong: str
    limits: tuple[str, ...]


class Probing:
    """The probes of one candidate: run in its session, and judged when its errors on the splits are known."""

    def __init__(
        self, artifact: Artifact, reference: Reference, context: RunContext, *, exact: bool, folder: Path
    ) -> None:
        self._artifact, self._context, self._exact, self._folder = artifact, context, exact, folder
        self._tree = context.store.locate_tree(reference.digest)
        self._outputs = self._tree / reference.outputs
        self._noise = context.locate_noise(reference)
        chosen = (probe for probe in reference.probes if exact or not probe.extreme)
        self._probes = [probe for probe in chosen if not (probe.sizes and artifact.static_shapes)]
        self._found: dict[str, Path | Failed] = {}

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files that the candidate's worker must be able to read."""
        return tuple(self._tree / probe.feeds for probe in self._probes)

    def run(self, session: WorkerSession) -> None:
        """Run the probes in a session."""
        fixed = self._artifact.static_shapes or has_fixed_batch(self._context.source)
        batch = self._context.largest_batch if fixed else None
        self._found = run_candidate(session, self._probes, tree=self._tree, folder=self._folder, batch=batch)

    @property
    def ended(self) -> Failed | None:
        """How the candidate was ended from outside, or by a limit, during the probes: then it has no result."""
        failures = (found for found in self._found.values() if isinstance(found, Failed))
        return next((failed for failed in failures if failed.failure.transient), None)

    def judge(self, found: Found) -> Probed:
        """Compare the outputs with the source's, given the differences on the splits."""
        usual, limits = _find_usual(found), list[str]()
        for number, probe in enumerate(self._probes):
            made = self._found.get(probe.name)
            if isinstance(made, Failed):
                limits.append(f"it fails on {probe.name}, which the source takes: {made.reason}")
            elif made is None:  # the previous one ended the worker
                fault = f"it crashes on {self._probes[number - 1].name}, which the source takes"
                return Probed(wrong=f"on a probe, {fault}", limits=())
            elif reasons := self._list_wrong(probe, made, usual):
                arrays = (read_arrays(path) for path in (self._tree / probe.feeds, self._tree / probe.outputs, made))
                tied = all(reasons.values()) and _is_tied(*arrays, usual=read_arrays(self._outputs))
                reason = next(iter(reasons))
                spared = probe.lenient or (probe.unlike_data and self._artifact.is_trained)
                if not spared and not tied:
                    return Probed(wrong=f"on a probe, {probe.name}: {reason}{self._suggest(probe)}", limits=())
                kind = _UNUSUAL if probe.lenient else _UNLIKE if spared else ""
                limits.append(f"on {probe.name}{kind}, {reason}{_TIED if tied else ''}")
        more = len(limits) - MOST_LIMITS
        remainder = [f"and on {more} more probes"] if more > 0 else []
        ranges = self._context.recipe.model.ranges.items()
        stated = [f"{name} was probed from {low:g} to {high:g} only (model.ranges)" for name, (low, high) in ranges]
        return Probed(wrong="", limits=(*limits[:MOST_LIMITS], *remainder, *stated))

    def _suggest(self, probe: ProbeRows) -> str:
        """Return a remedy if no caller sends such rows, as a sentence; empty if any caller may."""
        if probe.sizes:
            return f". If {' and '.join(probe.sizes)} never changes in use, fix its size in the model"
        numbers = (spec.name for spec in self._artifact.inputs if "int" in spec.dtype)
        named = next((name for name in numbers if probe.name.startswith(f"{name} of ")), "")
        return f". If {named} has no such numbers in use, state its range in model.ranges" if named else ""

    def _list_wrong(self, probe: ProbeRows, made: Path, usual: Mapping[str, Difference]) -> dict[str, bool]:
        """Return why outputs are wrong, each with whether it is an output of integers or text."""
        compared = compare_outputs(
            made,
            reference=self._tree / probe.outputs,
            feeds=self._tree / probe.feeds,
            outputs=self._artifact.outputs,
            lengths={name: one.length for name, one in usual.items()},
            noise=self._noise,
        )
        if isinstance(compared, Fault):
            return {compared.explain(): False}
        if self._exact:
            wrong = (one for one in compared if one.rows > self._find_probe_share(one, compared) * one.of)
            return {explain_rows(one) + self._find_rounding(probe): one.discrete for one in wrong}
        reasons = {}
        for one in compared:
            own = usual[one.output].distance if one.discrete else usual[one.output].usual
            allowed = min(max(OWN_ERRORS * own, LEAST_ERROR), LARGEST_ERROR)
            if one.rows and one.distance > allowed:
                far = f"differ{'' if one.output.endswith('s') else 's'} by {one.distance:.3g} of the output's scale"
                reason = f"{one.output} {far}, and {allowed:.3g} is allowed by the error on the splits; {one.example}"
                reasons[reason] = one.discrete
        return reasons

    def _find_probe_share(self, one: Difference, compared: Sequence[Difference]) -> float:
        """Return the share of rows in which an output of a route that only converts may differ.

        The class may differ in a single row if the scores are equal except for rounding: the largest is a tie.
        """
        share = find_share(one, choose_shares(self._context, exact=True))
        numbers = [each for each in compared if not each.discrete]
        tied = one.discrete and numbers and not any(each.rows for each in numbers)
        return max(share, 1 / max(one.of, 1)) if tied else share

    def _find_rounding(self, probe: ProbeRows) -> str:
        """Return how the runtime rounds the type of a probe's input, if known, as a sentence."""
        toolchain = read_catalogue().find_toolchain(str(self._artifact.runtime))
        dtypes = (spec.dtype for spec in self._artifact.inputs if probe.name.startswith(f"{spec.name} of "))
        known = (find_rounding(toolchain, dtype) for dtype in dtypes)
        return next((f". {toolchain.name} {clause}" for clause in known if clause), "")
