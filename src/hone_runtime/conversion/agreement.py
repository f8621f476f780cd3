"""Compare a converted model with its source: on rows of the user's data, and on probes derived from them.

A converter that overlooks a parameter writes a valid graph that computes something else. Its worker has both models,
so both are run. It runs in workers, and imports NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import numpy as np

from .distances import Array, find_distances, find_ties, has_ties, is_like, measure

Arrays = Mapping[str, Array]
Model = Callable[[Arrays], Arrays]
"""From inputs by name, rows first, to outputs by name."""

SHARE = 0.01
"""The share of rows that may differ more: at a tree's threshold, rounding to fp32 may send a row down another
branch."""
TIES = 0.05
"""The share of rows whose label may differ if the source's two largest scores are equal. Of few rows more may be tied
by chance: two standard deviations are added."""
_MOST_CALLS = 128
"""The most calls for finding the rows that a source does not refuse."""
CALIBRATION = "of the calibration data"


@dataclass(frozen=True)
class Part:
    """Some rows of a probe: ``what`` was changed in them, and their indices."""

    what: str
    rows: slice


@dataclass(frozen=True)
class Probe:
    """Rows derived from the calibration data.

    Attributes:
        kind: The change that was made; rows of one kind are counted together.
        feeds: The inputs.
        origins: For each row, the calibration row from which it was made.
        parts: Its rows, in parts that are also counted separately: if a source refuses a part, only that part is left
            out.
        alike: Whether all its rows are the same, such as zeros. If all scores are then equal, any of them may be the
            largest: differences of labels and indices count only if other numbers differ.
    """

    kind: str
    feeds: Arrays
    origins: Sequence[int]
    parts: Sequence[Part]
    alike: bool = False


@dataclass
class Tally:
    """The compared rows of one output, and those that differ too much from the source's."""

    output: str
    numbers: bool
    rows: int = 0
    apart: int = 0
    worst: float = 0.0
    example: str = ""

    def add(self, distances: Array, describe: Callable[[int], str]) -> None:
        """Count rows; their distances are in units of the allowed difference."""
        self.rows += len(distances)
        self.apart += int((distances > 1).sum())
        largest = float(distances.max()) if len(distances) else 0.0
        if largest > max(self.worst, 1.0):
            self.worst, self.example = largest, describe(int(distances.argmax()))

    def is_too_far(self, *, has_steps: bool, share: float | None) -> bool:
        """Return whether too many rows differ: more than a share. If None: 1 %, or one row if the source has steps."""
        if share is not None:
            return self.apart > int(self.rows * share)
        return self.apart > max(int(self.rows * SHARE), int(has_steps or not self.numbers))

    def explain(self) -> str:
        """Return a sentence about the row with the largest difference."""
        verb = "differ" if self.output.endswith("s") else "differs"
        counted = f"{self.apart} of {self.rows} rows are too far off"
        return f"{self.output} {verb} from the source's: {self.example} ({counted})"


@dataclass
class Comparison:
    """The result of a comparison.

    Attributes:
        agreeing: The calibration rows on which all outputs agree.
        problem: Why the converted model differs from its source; None if it does not.
        totals: The compared rows, by output.
    """

    agreeing: list[int]
    problem: str | None = None
    totals: dict[str, Tally] = field(default_factory=dict)

    def describe(self) -> list[str]:
        """Return a line for each output with some differing rows, though no more than allowed."""
        return [tally.explain() for tally in self.totals.values() if tally.apart]


def compare(
    source: Model,
    graph: Model,
    feeds: Arrays,
    make_probes: Callable[[list[int]], Iterable[Probe]],
    *,
    rows: Sequence[int],
    has_steps: bool,
    by_column: Sequence[str] = (),
    scores: Mapping[str, str] = MappingProxyType({}),
    share: float | None = None,
) -> Comparison:
    """Compare a graph with its source on calibration rows, and on probes derived from some of them.

    Rows that the source refuses, or for which it returns numbers that are not finite, are left out.

    Args:
        source: The source model.
        graph: The converted model.
        feeds: The calibration data.
        make_probes: From the indices of rows on which both agree to probes, which are the same at each call.
        rows: The indices of the calibration rows to compare.
        has_steps: Whether rounding may change a row's branch, as in trees.
        by_column: The outputs whose columns each have their own range.
        scores: For the name of a label output, the source's scores that decide it: between equal scores, rounding
            decides. The graph need not output them: they are compared only if it does.
        share: The share of rows that may differ too much, from the recipe. If None, as in ``Tally.is_too_far``.
    """
    judge = _Judge(graph, has_steps=has_steps, by_column=by_column, scores=scores, share=share)
    found = Comparison([], totals=judge.totals)
    for some, given, due in _call_accepted(source, feeds, [*rows]):
        if problem := judge.find_problem(CALIBRATION, some, CALIBRATION, given, due):
            found.problem = problem
            return found
        found.agreeing += [row for row in some if row not in judge.apart]
    if not judge.totals:
        found.problem = "the source fails on every calibration row, so the converted model cannot be compared with it"
    for probe in make_probes(found.agreeing) if found.agreeing else ():
        for what, some, given, due in _call_parts(source, probe):
            if problem := judge.find_problem(probe.kind, some, what, given, due, alike=probe.alike):
                found.problem = problem
                return found
    found.problem = found.problem or judge.find_problem_of_all()
    return found


def choose(count: int, most: int) -> list[int]:
    """Return at most so many indices, evenly from the first to the last."""
    return sorted({*np.linspace(0, count - 1, min(count, most)).astype(int).tolist()})


class _Judge:
    """Compares outputs, and counts rows that differ too much: for each part, for each kind, and in total.

    Attributes:
        totals: The total counts, by output.
        apart: The calibration rows that differ too much.
    """

    def __init__(
        self,
        graph: Model,
        *,
        has_steps: bool,
        by_column: Sequence[str],
        scores: Mapping[str, str],
        share: float | None,
    ) -> None:
        self._graph, self._by_column, self._scores = graph, by_column, scores
        self._is_too_far = partial(Tally.is_too_far, has_steps=has_steps, share=share)
        self._scales: dict[str, tuple[Array, Array]] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._kinds: dict[tuple[str, str], Tally] = {}
        self.totals: dict[str, Tally] = {}
        self.apart: set[int] = set()

    def find_problem(
        self, kind: str, places: Sequence[int], what: str, given: Arrays, due: Arrays, *, alike: bool = False
    ) -> str | None:
        """Return why the graph's outputs for some rows differ from the source's (``due``); None if they do not."""
        try:
            made = self._graph(given)
        except Exception as error:  # noqa: BLE001 - its runtime may raise anything
            message = " ".join(str(error).split())[:300]
            return f"the source answers row {places[0]} {what}, and the converted model fails: {message}"
        part: dict[str, Tally] = {}
        shared = {name: array for name, array in due.items() if name in made or name not in self._scores.values()}
        numbers_first = sorted(shared.items(), key=lambda one: one[1].dtype.kind not in "fc")
        for name, wanted in numbers_first if alike else shared.items():
            if name not in self._scales:
                self._scales[name] = measure(wanted, by_column=name in self._by_column)
            scale = self._scales[name]
            answer = np.asarray(made[name])
            if answer.shape != wanted.shape:
                verb = "differ" if name.endswith("s") else "differs"
                shapes = f"{wanted.shape} by the source, and {answer.shape} by the converted model"
                return f"{name} {verb} from the source's in the shape: {shapes}, at row {places[0]} {what}"
            distances, say = find_distances(wanted, answer, scale, rows=len(places))
            if name in self._scores:
                tied = find_ties(due[self._scores[name]]) & (distances > 1)
                if tied.sum() <= TIES * len(tied) + 2 * (TIES * len(tied)) ** 0.5:
                    distances = np.where(tied, 0.0, distances)
            if (
                alike
                and wanted.dtype.kind not in "fc"
                and has_ties([due[self._scores[name]]] if name in self._scores else due.values())
                and self._is_like_seen(name, wanted)
                and self._is_like_seen(name, answer)
                and not any(tally.numbers and tally.apart for tally in part.values())
            ):
                distances = np.zeros_like(distances)
            describe = partial(_describe, places, what, name, say)
            fresh = partial(Tally, name, wanted.dtype.kind in "fc")
            for tally in (
                part.setdefault(name, fresh()),
                self._kinds.setdefault((kind, name), fresh()),
                self.totals.setdefault(name, fresh()),
            ):
                tally.add(distances, describe)
            if kind == CALIBRATION:
                self._see(name, wanted)
                self.apart.update(places[int(at)] for at in np.flatnonzero(distances > 1))
        return self._explain(part.values())

    def _see(self, name: str, wanted: Array) -> None:
        """Record the smallest and the largest integer that the source returned for calibration rows."""
        if wanted.dtype.kind in "iu" and wanted.size:
            least, largest = self._seen.get(name, (int(wanted.min()), int(wanted.max())))
            self._seen[name] = min(least, int(wanted.min())), max(largest, int(wanted.max()))

    def _is_like_seen(self, name: str, answer: Array) -> bool:
        """Return whether an output is in a range like that of calibration rows, if both are integers."""
        return name not in self._seen or answer.dtype.kind not in "iu" or is_like(answer, *self._seen[name])

    def find_problem_of_all(self) -> str | None:
        """Return why the graph differs from the source, by the counts over all parts; None if it does not."""
        return self._explain([*self._kinds.values(), *self.totals.values()])

    def _explain(self, tallies: Iterable[Tally]) -> str | None:
        """Return the sentence for a tally with too many differing rows; numbers are more informative than labels."""
        far = [tally for tally in tallies if self._is_too_far(tally)]
        return min(far, key=lambda tally: (not tally.numbers, -tally.worst)).explain() if far else None


def _describe(places: Sequence[int], what: str, name: str, say: Callable[[str, int], str], at: int) -> str:
    return f"row {places[at]} {what}: {say(name, at)}"


def _call_accepted(source: Model, feeds: Arrays, rows: list[int]) -> Iterator[tuple[list[int], Arrays, Arrays]]:
    """Yield the rows that a source accepts, with their inputs and outputs: all of them, or by bisection."""
    waiting, calls = [rows], 0
    while waiting and calls < _MOST_CALLS:
        some, calls = waiting.pop(0), calls + 1
        given = {name: array[some] for name, array in feeds.items()}
        if (due := _try(source, given)) is not None:
            yield some, given, due
        elif len(some) > 1:
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]


def _call_parts(source: Model, probe: Probe) -> Iterator[tuple[str, list[int], Arrays, Arrays]]:
    """Yield the parts of a probe that a source accepts: the change, the rows, the inputs and the outputs."""
    whole = _try(source, probe.feeds)
    if any(np.ndim(array) == 0 or len(array) != len(probe.origins) for array in (whole or {}).values()):
        whole = None  # an output without one row per input row depends on these rows together
    for part in probe.parts:
        given = {name: array[part.rows] for name, array in probe.feeds.items()}
        due = _try(source, given) if whole is None else {name: array[part.rows] for name, array in whole.items()}
        if due is not None:
            yield part.what, [*probe.origins[part.rows]], given, due


def _try(source: Model, feeds: Arrays) -> Arrays | None:
    """Return a source's outputs; None if it refuses the rows, which then do not count."""
    try:
        return source(feeds)
    except Exception:  # noqa: BLE001 - a source may raise anything
        return None
