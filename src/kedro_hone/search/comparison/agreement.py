"""Whether a candidate's outputs agree with the source's on the same rows, output by output and row by row.

A metric only judges the outputs that its program reads. All other outputs of the learner, such as the probabilities
next to a label, are judged here; and a route that only converts must agree in each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.conversion.distances import TOLERANCE
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.outcome import FailureClass
from kedro_hone.programs.shared.parts import find_constant, find_fillers, find_least_similar, measure_units
from kedro_hone.search.comparison.answers import Answers, find_accepted, replace_rows
from kedro_hone.search.comparison.arrays import UNREADABLE, open_arrays, read_arrays
from kedro_hone.search.comparison.crops import find_rows_mask
from kedro_hone.search.comparison.differences import are_pixels

Array = NDArray[Any]

_LEAST_ROWS: Final = 20
_STILL: Final = 1e-6
"""If rows differ by less than this share of their values, their spread is only rounding."""

_TINY: Final = float(np.finfo(np.float32).tiny)
"""Numbers below it have few bits, or a runtime flushes them to 0: no scale is smaller, and that of zeros is 1."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why outputs cannot be compared at all: names, shapes, types, or values that are not finite.

    Attributes:
        failure: The class of the failure.
        output: The output's name; empty if no output can be read.
        reason: A clause about that output, or about the predictions.
    """

    failure: FailureClass
    output: str = ""
    reason: str

    def explain(self, where: str = "") -> str:
        """Return the reason with the output's name, and the batch size or shape if given."""
        place = f" at {where}" if where else ""
        return (
            f"output {self.output!r}{place}: {self.reason}" if self.output else f"the predictions{place} {self.reason}"
        )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How one output differs from the source's.

    Attributes:
        output: The output's name.
        discrete: Whether it contains integers, truth values or text.
        largest: The largest difference, relative to the largest value of the source's output; 0 for text.
        excused: The same for rows that count as equal, since the source itself returned several results.
        rows: How many rows differ by more than rounding.
        places: The indices of these rows, from 0.
        of: The number of all rows.
        example: The row that differs most, relative to the unit of its part, with both numbers, as a clause; empty if
            no row differs.
        constant: The part that varies in the source but not in the candidate, as a clause; empty if absent.
        furthest: The output with the part that is least similar to the source's; only the name if there are no parts.
        distance: The mean over the rows of the length of the difference relative to that of the source's row; for
            integers and text, the share of rows that differ.
        usual: The 95th percentile of the rows' distances.
        length: The root mean square of the lengths of the source's rows.
        lost: The root mean square of the differences, relative to that of the source's rows from their mean.
    """

    output: str
    discrete: bool
    of: int
    largest: float = 0.0
    excused: float = 0.0
    rows: int = 0
    places: tuple[int, ...] = ()
    example: str = ""
    constant: str = ""
    furthest: str = ""
    distance: float = 0.0
    usual: float = 0.0
    length: float = 0.0
    lost: float = 0.0


def compare_outputs(
    found: Path,
    *,
    reference: Path,
    feeds: Path,
    outputs: Sequence[TensorSpec],
    lengths: Mapping[str, float] = MappingProxyType({}),
    answers: Mapping[str, Answers] = MappingProxyType({}),
    noise: Path | None = None,
) -> list[Difference] | Fault:
    """Compare all outputs of a candidate (``found``) with the source's (``reference``) for the same rows (``feeds``).

    All are npz files, rows first. An output has the source's type, or the one that the candidate declares for it
    (``outputs``). Values for tokens that are only padding are meaningless and not compared. If rows are unusual,
    ``lengths`` are those of usual ones, by output. If the source itself returned several ``answers``, by output and
    row, an output within their range counts as equal. ``noise`` (npz) marks the numbers of a row with the rounding
    error of larger ones, as found by the source's own trials.
    """
    declared = {spec.name: spec.dtype for spec in outputs}
    of_tokens = {spec.name for spec in outputs if spec.shape[:2] == ("batch", "length")}
    differences, noisy = [], {} if noise is None else read_arrays(noise)
    with open_arrays(reference) as expected, open_arrays(feeds) as rows:
        mask = find_rows_mask(rows) if of_tokens else None
        try:
            with open_arrays(found) as arrays:
                for name in expected.files:
                    want, got = expected[name], arrays.get(name)
                    if got is None:
                        return Fault(failure=FailureClass.BAD_OUTPUT, output=name, reason="there is none")
                    if reason := _find_misfit(want, got, declared.get(name)):
                        return Fault(failure=FailureClass.BAD_OUTPUT, output=name, reason=reason)
                    if mask is not None and name in of_tokens and mask.shape == want.shape[:2]:
                        kept = mask.reshape(*mask.shape, *[1] * (want.ndim - 2))
                        got = np.where(kept, got, want)
                    if reason := _find_infinite(want, got):
                        return Fault(failure=FailureClass.NUMERICS, output=name, reason=reason)
                    excused, one = 0.0, noisy.get(name)
                    if others := answers.get(name):
                        places, excused = find_accepted(want, got, others, rounding=TOLERANCE, noise=one)
                        got = replace_rows(got, {place: want[place] for place in places})
                    difference = compare_arrays(name, want, got, length=lengths.get(name, 0.0), noise=one)
                    differences.append(replace(difference, excused=excused) if excused else difference)
        except UNREADABLE as unreadable:
            return Fault(failure=FailureClass.BAD_OUTPUT, reason=f"cannot be read: {unreadable}")
    return differences


def compare_arrays(
    name: str, want: Array, got: Array, *, length: float = 0.0, noise: Array | None = None
) -> Difference:
    """Compare one output with the source's; both have the same shape, kind and non-finite values."""
    noise = noise if noise is not None and noise.shape == want.shape[1:] and want.dtype.kind == "f" else None
    discrete, count = want.dtype.kind not in "fc", len(want) if want.ndim else 1
    constant, largest, furthest = "", 0.0, name
    if not want.size:
        return Difference(output=name, discrete=discrete, of=count)
    error: Array = _find_unequal(want, got)
    beyond, own = error, 0.0
    if want.dtype.kind != "U":
        want, got = (np.atleast_1d(one) for one in _fill(want, got))
        own = float(np.sqrt(np.square(want.astype(np.float64)).sum() / count))
        usual = length / np.sqrt(want.size / count)  # for one number
        scale = _choose_scale(float(np.abs(want).max()), usual)
        distance = np.abs(got - want)
        largest = float(distance.max()) / scale
        if not discrete:
            part = find_constant(want, got)
            constant = "" if part is None else f"{name}{part if part.axis else ''} varies in the source and is constant"
            error = distance / measure_units(want, scale, noise=noise)
            beyond = error > TOLERANCE
            least = find_least_similar(got, want) if beyond.any() else None
            if least is not None:
                furthest, inside = f"{name}{least}", least.choose(beyond)
                error = np.where(inside, error, 0) if inside.any() else error
    rows: Array = np.asarray(beyond.reshape(count, -1).any(axis=1))
    distances = rows.astype(np.float64) if discrete else _measure_distances(want, got, _choose_scale(own, length))
    return Difference(
        output=name,
        discrete=discrete,
        largest=largest,
        rows=int(rows.sum()),
        places=tuple(int(place) for place in np.flatnonzero(rows)),
        of=count,
        example=_give_example(want, got, error.reshape(count, -1), rows) if rows.any() else "",
        constant=constant,
        furthest=furthest,
        distance=float(distances.mean()),
        usual=float(np.quantile(distances, 0.95)),
        length=own,
        lost=0.0 if discrete else _measure_lost(want, got),
    )


def explain_rows(difference: Difference) -> str:
    """Return in how many rows an output differs, and the row that differs most, as a clause."""
    measure = "" if difference.discrete else f" by more than {TOLERANCE:g} of their scale"
    rows = f"in {difference.rows} of {difference.of} rows"
    verb = "differ" if difference.output.endswith("s") else "differs"
    return f"{difference.output} {verb} from the source's{measure} {rows}: {difference.example}"


def _measure_lost(want: Array, got: Array) -> float:
    """Return the differences relative to the spread of the source's rows; 0 if these are too few, or all equal."""
    spread = float(np.square(want - want.mean(axis=0, dtype=np.float64)).sum())
    if len(want) < _LEAST_ROWS or spread <= np.square(_STILL * want.astype(np.float64)).sum():
        return 0.0
    return float(np.sqrt(np.square((got - want).astype(np.float64)).sum() / spread))


def _choose_scale(*sizes: float) -> float:
    largest = max(sizes)
    return largest if largest >= _TINY else 1.0


def _fill(want: Array, got: Array) -> tuple[Array, Array]:
    """Return two outputs as floating-point numbers, with 0 for masks and where the source is not finite."""
    if want.dtype.kind not in "fc":
        return want.astype(np.float64), got.astype(np.float64)
    kept = np.isfinite(want)
    if want.dtype.kind == "f":
        kept &= ~find_fillers(want, got)
    due, found = (np.where(kept, one, 0) for one in (want, got))
    if want.dtype.kind == "c":
        due, found = (np.stack([one.real, one.imag], axis=-1) for one in (due, found))
    kind = np.float32 if want.dtype == np.float32 else np.float64
    return due.astype(kind), found.astype(kind)


def _find_unequal(want: Array, got: Array) -> Array:
    """Return where integers, truth values or text differ; pixels may differ by one, which is rounding."""
    unequal = np.atleast_1d(np.asarray(want != got))
    if are_pixels(want):
        return np.atleast_1d(np.asarray(np.abs(want.astype(np.int64) - got.astype(np.int64)) > 1))
    return unequal


def _measure_distances(want: Array, got: Array, usual: float) -> Array:
    """Return the length of each row's difference relative to the source's row, or to a usual one if that is longer."""
    tables = [one.reshape(len(one), -1).astype(np.float64) for one in (want, got - want)]
    lengths, errors = (np.sqrt(np.square(table).sum(axis=1)) for table in tables)
    return np.asarray(errors / np.maximum(lengths, usual))


def _give_example(want: Array, got: Array, error: Array, rows: Array) -> str:
    """Return the row that differs most among some rows, with both numbers, as a clause."""
    row = int(np.argmax(np.where(rows, error.max(axis=1), -1)))
    place = int(error[row].argmax())
    due, found = (one.reshape(len(error), -1)[row, place] for one in (want, got))
    where = f"row {row}" if error.shape[1] == 1 else f"row {row}, number {place},"
    pairs = [(_write(found, digits), _write(due, digits)) for digits in (6, 9)]
    first, second = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    return f"{where} is {first}, and the source's is {second}"


def _write(value: Any, digits: int) -> str:
    return repr(str(value)) if isinstance(value, str) else f"{float(value):.{digits}g}"


def _find_misfit(want: Array, got: Array, declared: str | None) -> str:
    """Return how the shape or the type of an output differs from the source's; empty if both match."""
    if got.shape != want.shape:
        return f"its shape is {got.shape}, the source's is {want.shape}"
    known = got.dtype.kind == "U" or got.dtype.name in {want.dtype.name, declared}
    fits = got.dtype.kind == want.dtype.kind and known
    return "" if fits else f"its type is {got.dtype}, the source's is {want.dtype}"


def _find_infinite(want: Array, got: Array) -> str:
    """Return where one of two outputs is not finite and the other is not the same; empty if nowhere."""
    if got.dtype.kind not in "fc":
        return ""
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    strange = ~same & ~(np.isfinite(got) & np.isfinite(want))
    if not strange.any():
        return ""
    rows = int(np.atleast_1d(strange).reshape(len(want) if want.ndim else 1, -1).any(axis=1).sum())
    place = tuple(int(index) for index in np.argwhere(strange)[0])
    where = f"first at {list(place)}, where it is {got[place]} and the source's is {want[place]}"
    return f"some values are not finite where the source's are other ones, in {rows} of {len(want)} rows; {where}"
