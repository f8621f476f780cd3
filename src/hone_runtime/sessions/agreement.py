"""Whether a converted model gives what its source gives: on rows of the user's data, and on probes made of them.

A converter that overlooks a parameter writes a valid graph that computes something else. Its worker has both at hand,
so that both are run. Workers load this file by its path; it imports numpy only.
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
"""The share of rows that may be further off: at a threshold of a tree, rounding to fp32 sends a row another way."""
TIES = 0.05
"""The share of rows whose label may be another one where the source's two largest scores are the same; one at least, in
a probe."""
_MOST_CALLS = 128
"""Calls that find the rows which a source does not refuse."""
CALIBRATION = "of the calibration data"


@dataclass(frozen=True)
class Part:
    """Some rows of a probe: ``what`` was changed in them, and which ones they are."""

    what: str
    rows: slice


@dataclass(frozen=True)
class Probe:
    """Rows that were made of the calibration data.

    Attributes:
        kind: What was done to them; rows of one kind are counted together.
        feeds: The inputs.
        origins: The row of the calibration data that each is made of.
        parts: Its rows, in parts that are each counted, too: what a source refuses is left out part by part.
        alike: Whether all its rows are the same, such as zeros. Of scores that are all equal then, any may be the
            largest: labels and places count only where other numbers differ.
    """

    kind: str
    feeds: Arrays
    origins: Sequence[int]
    parts: Sequence[Part]
    alike: bool = False


@dataclass
class Tally:
    """Rows of one output that were compared, and those of them that are too far from the source's."""

    output: str
    numbers: bool
    rows: int = 0
    apart: int = 0
    worst: float = 0.0
    example: str = ""

    def add(self, distances: Array, describe: Callable[[int], str]) -> None:
        """Count rows, whose distances are in units of what is allowed."""
        self.rows += len(distances)
        self.apart += int((distances > 1).sum())
        largest = float(distances.max()) if len(distances) else 0.0
        if largest > max(self.worst, 1.0):
            self.worst, self.example = largest, describe(int(distances.argmax()))

    def is_too_far(self, *, has_steps: bool, share: float | None) -> bool:
        """Return whether more rows are apart than a share; if None, 1 %, or one where the source computes in steps."""
        if share is not None:
            return self.apart > int(self.rows * share)
        return self.apart > max(int(self.rows * SHARE), int(has_steps or not self.numbers))

    def explain(self) -> str:
        """Return a sentence with the row that is furthest off."""
        verb = "differ" if self.output.endswith("s") else "differs"
        counted = f"{self.apart} of {self.rows} rows are too far off"
        return f"{self.output} {verb} from the source's: {self.example} ({counted})"


@dataclass
class Comparison:
    """What was found.

    Attributes:
        agreeing: The rows of the calibration data on which all outputs agree.
        problem: Why the converted model is not its source; None if absent.
        totals: The rows that were compared, by output.
    """

    agreeing: list[int]
    problem: str | None = None
    totals: dict[str, Tally] = field(default_factory=dict)

    def describe(self) -> list[str]:
        """Return a line for each output of which some rows are apart, though no more than may be."""
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
    """Compare a graph with its source on calibration rows, and on the probes that are made of some of these.

    Rows that the source refuses, or does not answer by finite numbers, are left out.

    Args:
        source: The source model.
        graph: What the converter made of it.
        feeds: The calibration data.
        make_probes: From the places of the rows on which both agree to probes, which are the same at each call.
        rows: The places of the calibration rows that are compared.
        has_steps: Whether rounding may send a row another way, as in trees.
        by_column: The outputs whose columns each have a range of their own.
        scores: By the name of a label, the source's scores by which it is chosen: between equal ones, rounding decides.
            The graph need not have them: they are compared only where it does.
        share: The share of rows that may be too far off, as the recipe has it. When None, as ``Tally.is_too_far`` has.
    """
    judge = _Judge(graph, has_steps=has_steps, by_column=by_column, scores=scores, share=share)
    found = Comparison([], totals=judge.totals)
    for some, given, due in _ask(source, feeds, [*rows]):
        if problem := judge.find_problem(CALIBRATION, some, CALIBRATION, given, due):
            found.problem = problem
            return found
        found.agreeing += [row for row in some if row not in judge.apart]
    if not judge.totals:
        found.problem = (
            "the source answers none of the calibration rows: nothing shows that the converted model is right"
        )
    for probe in make_probes(found.agreeing) if found.agreeing else ():
        for what, some, given, due in _ask_probe(source, probe):
            if problem := judge.find_problem(probe.kind, some, what, given, due, alike=probe.alike):
                found.problem = problem
                return found
    found.problem = found.problem or judge.find_problem_of_all()
    return found


def choose(count: int, most: int) -> list[int]:
    """Return the places of so many of some rows at most, from the first to the last."""
    return sorted({*np.linspace(0, count - 1, min(count, most)).astype(int).tolist()})


class _Judge:
    """Compares answers, and counts those that are too far apart: of each part, of each kind, and of all.

    Attributes:
        totals: The counts of all, by output.
        apart: The rows of the calibration data that are too far off.
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
        """Return why the graph's answers to some rows are not the source's (``due``); None if absent."""
        try:
            made = self._graph(given)
        except Exception as error:  # noqa: BLE001 - it raises what its runtime does
            said = " ".join(str(error).split())[:300]
            return f"the source answers row {places[0]} {what}, and the converted model fails: {said}"
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
                if tied.sum() <= max(TIES * len(tied), int(kind != CALIBRATION)):
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
        """Note the least and the largest whole number that the source returned for calibration rows."""
        if wanted.dtype.kind in "iu" and wanted.size:
            least, largest = self._seen.get(name, (int(wanted.min()), int(wanted.max())))
            self._seen[name] = min(least, int(wanted.min())), max(largest, int(wanted.max()))

    def _is_like_seen(self, name: str, answer: Array) -> bool:
        """Return whether an answer is like those of calibration rows, where both are whole numbers."""
        return name not in self._seen or answer.dtype.kind not in "iu" or is_like(answer, *self._seen[name])

    def find_problem_of_all(self) -> str | None:
        """Return why the graph is not the source by what was counted over parts; None if absent."""
        return self._explain([*self._kinds.values(), *self.totals.values()])

    def _explain(self, tallies: Iterable[Tally]) -> str | None:
        """Return the sentence of those that are too far off; numbers say more of it than labels do."""
        far = [tally for tally in tallies if self._is_too_far(tally)]
        return min(far, key=lambda tally: (not tally.numbers, -tally.worst)).explain() if far else None


def _describe(places: Sequence[int], what: str, name: str, say: Callable[[str, int], str], at: int) -> str:
    return f"row {places[at]} {what}: {say(name, at)}"


def _ask(source: Model, feeds: Arrays, rows: list[int]) -> Iterator[tuple[list[int], Arrays, Arrays]]:
    """Yield the rows that a source answers, with their inputs and its answers: all of them, or by halves."""
    waiting, calls = [rows], 0
    while waiting and calls < _MOST_CALLS:
        some, calls = waiting.pop(0), calls + 1
        given = {name: array[some] for name, array in feeds.items()}
        if (due := _try(source, given)) is not None:
            yield some, given, due
        elif len(some) > 1:
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]


def _ask_probe(source: Model, probe: Probe) -> Iterator[tuple[str, list[int], Arrays, Arrays]]:
    """Yield the parts of a probe that a source answers: what was changed, the rows, the inputs and the answers."""
    whole = _try(source, probe.feeds)
    if any(np.ndim(array) == 0 or len(array) != len(probe.origins) for array in (whole or {}).values()):
        whole = None  # an output that is no row for each row is of these rows together
    for part in probe.parts:
        given = {name: array[part.rows] for name, array in probe.feeds.items()}
        due = _try(source, given) if whole is None else {name: array[part.rows] for name, array in whole.items()}
        if due is not None:
            yield part.what, [*probe.origins[part.rows]], given, due


def _try(source: Model, feeds: Arrays) -> Arrays | None:
    """Return a source's answer; None where it refuses the rows, which are no fair question then."""
    try:
        return source(feeds)
    except Exception:  # noqa: BLE001 - it raises what it does
        return None
