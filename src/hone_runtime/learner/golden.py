"""Golden rows: inputs with a winner's outputs at its measurement, for comparison when it is loaded."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hone_runtime.contract.host import Host
from hone_runtime.interfaces.tensors import Run
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json, Value
from hone_runtime.values.regular import read_regular

SMALLEST_TOLERANCE: Final = 1e-3
"""Allowed difference for the same arithmetic in another order, in half precision; relative to an output's largest
value."""

LARGEST_HERE: Final = 1e-2
"""The largest tolerance on the same kind of machine that computed the outputs, however lossy the winner is."""

LARGEST_TOLERANCE: Final = 0.25
"""The largest tolerance on any machine."""

LARGEST_NORM: Final = 0.5
"""The limit for the norm of the difference over the norm of the centred outputs: a constant output would give 1."""

LARGE, FAR = 1e3, 100.0
"""A mask value has at least this size, and is at least so many times as large as all other values."""

FEW: Final = 8
"""A channel or column with fewer numbers than this in the golden rows is not compared by its norm."""

LARGEST_GOLDEN: Final = 4 << 20
"""Size limit of the arrays in bytes; fewer rows, or none, are stored if they would exceed it."""


class Packed(Value):
    """An array: its bytes in base64, in the machine's byte order, first index slowest."""

    dtype: str = Field(pattern=r"^(float|int|uint)[0-9]{1,2}$|^bool$|^<U[0-9]{1,9}$")
    shape: tuple[int, ...]
    data: str

    @classmethod
    def of(cls, array: NDArray[Any]) -> Packed:
        """Return an array of numbers, booleans or text; ``ValueError`` for others."""
        if array.dtype.kind not in "biufU":
            raise ValueError(f"arrays of {array.dtype} are not kept")
        name = array.dtype.str if array.dtype.kind == "U" else array.dtype.name
        return cls(dtype=name, shape=array.shape, data=base64.b64encode(np.ascontiguousarray(array).tobytes()).decode())

    def unpack(self) -> NDArray[Any]:
        """Return the array; ``ValueError`` if the number of bytes does not match its shape."""
        content = base64.b64decode(self.data, validate=True)
        return np.frombuffer(content, np.dtype(self.dtype)).reshape(self.shape).copy()


class Golden(Value):
    """The golden rows of a winner, from the gate split.

    Attributes:
        tolerance: The allowed difference on another kind of machine, relative to each output's largest value. It is
            twice the winner's difference from the source at validation, between ``SMALLEST_TOLERANCE`` and
            ``LARGEST_TOLERANCE``. Integers of 32 and 64 bits, and text, must be equal.
        parts: For a composite, the outputs of each part; otherwise empty.
        one_call: Whether the outputs were computed in one call with these rows, as they are at load.
        source: The attributes with which the source was sealed; its digest covers these and its files.
        machine: The fingerprint of the machine that computed the outputs, the processor's name and its flags.
    """

    inputs: dict[str, Packed]
    outputs: dict[str, Packed]
    parts: tuple[dict[str, Packed], ...] = ()
    one_call: bool = False
    tolerance: float = Field(gt=0, allow_inf_nan=False)
    source: dict[str, Json]
    machine: str
    processor: str
    flags: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Golden | None:
        """Return the golden rows in a file; None if there is no file.

        Raises:
            OSError, ValueError: The file cannot be read.
        """
        return cls.model_validate_json(read_regular(path)) if path.exists() else None

    def find_difference(self, *runs: Run, host: Host | None) -> str:
        """Run the rows, and return how the outputs differ from the stored ones, as a clause; empty if they do not.

        Args:
            *runs: The winner's call, or for a composite the call of each part.
            host: This machine; None if these are calls of the source, whose outputs the winner's may differ from.

        Raises:
            Exception: As raised by the runtime.
        """
        each = self.parts if len(self.parts) == len(runs) else (self.outputs,) * len(runs)
        tolerance = self._choose_tolerance(host)
        for run, outputs in zip(runs, each, strict=True):
            found = run({name: packed.unpack() for name, packed in self.inputs.items()})
            for name, packed in outputs.items():
                if difference := _compare(packed.unpack(), found.get(name), tolerance):
                    return f"its output {name} {difference}"
        return ""

    def find_result_difference(
        self, due: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]], *, host: Host
    ) -> str:
        """Return how two results of this winner differ by more than the golden rows may, as a clause; or empty."""
        for name, array in due.items():
            want = array.astype(str) if array.dtype.kind in "OS" else array
            if difference := _compare(want, found.get(name), self._choose_tolerance(host)):
                return f"its output {name} {difference}"
        return ""

    def _choose_tolerance(self, host: Host | None) -> float:
        """Return the tolerance on this machine: almost zero on the same kind of machine for the same computation."""
        here = host is not None and self.one_call and host.fingerprint == self.machine
        return min(self.tolerance, LARGEST_HERE if here else LARGEST_TOLERANCE)

    def format_other_machine(self, host: Host) -> str:
        """Return a sentence about this machine if it differs from the one that computed the outputs; else empty."""
        if host.fingerprint == self.machine:
            return ""
        return f" It was measured on another machine: {self.processor}, and this is {host.cpu}."


def make_golden(
    feeds: Mapping[str, NDArray[Any]],
    outputs: Mapping[str, NDArray[Any]],
    *,
    rows: int,
    largest_error: float,
    source: Artifact,
    host: Host,
    parts: Sequence[Mapping[str, NDArray[Any]]] = (),
) -> Golden | None:
    """Return the first rows of a split with a winner's outputs; None if nothing can be stored.

    Outputs without one row for each row of the inputs are left out.

    Args:
        feeds: All inputs by name, rows first.
        outputs: The winner's outputs for them.
        rows: How many rows are stored; fewer if they are large.
        largest_error: The largest difference of the outputs from the source's, relative to the largest output.
        source: The winner's source.
        host: The machine that computed the outputs.
        parts: For a composite, the outputs of each part for the same rows.
    """
    count = min(map(len, feeds.values()), default=0)
    rowwise = {name: array for name, array in outputs.items() if array.ndim and len(array) == count}
    sides = [feeds, rowwise, *({name: part[name] for name in rowwise} for part in parts)]
    each = sum(array[:1].nbytes for side in sides for array in side.values())
    kept = min(rows, count, LARGEST_GOLDEN // max(each, 1))
    if kept < 1 or not rowwise:
        return None
    try:
        packed = [{name: Packed.of(array[:kept]) for name, array in side.items()} for side in sides]
    except ValueError:  # such as complex numbers
        return None
    return Golden(
        inputs=packed[0],
        outputs=packed[1],
        parts=tuple(packed[2:]),
        one_call=kept == count,
        tolerance=min(max(SMALLEST_TOLERANCE, 2 * largest_error), LARGEST_TOLERANCE),
        source=source.manifest(),
        machine=host.fingerprint,
        processor=host.cpu,
        flags=tuple(sorted(host.flags)),
    )


def _compare(want: NDArray[Any], found: NDArray[Any] | None, tolerance: float) -> str:
    if found is None:
        return "is missing"
    if found.shape != want.shape:
        return f"has the shape {found.shape} instead of {want.shape}"
    if want.dtype.kind == "U":
        return "" if bool((found.astype(str) == want).all()) else "is a different text"
    if want.dtype.kind in "iu" and want.dtype.itemsize >= 4:  # classes and indices; narrower ones may be pixels
        return "" if bool((found == want).all()) else "has a different whole number"
    if want.dtype.kind in "iu":  # pixels: rounding changes them by one
        tolerance = max(tolerance, 1.0 / max(int(np.abs(want.astype(np.int64)).max(initial=0)), 1))
    return _compare_numbers(want.astype(np.float64), np.asarray(found, np.float64), tolerance)


def _compare_numbers(due: NDArray[Any], got: NDArray[Any], tolerance: float) -> str:
    finite = np.isfinite(due)
    if not np.array_equal(due[~finite], got[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return "has different numbers that are not finite"
    kept = finite & ~_find_masked(due, got)
    due, got = np.where(kept, due, 0.0), np.where(kept, got, 0.0)
    scale = float(np.abs(due).max(initial=0.0)) or 1.0
    largest = float(np.abs(got - due).max(initial=0.0)) / scale
    if largest > tolerance:
        return f"differs by {largest:.2g} of its largest value; {tolerance:.2g} is allowed"
    return _compare_lengths(due, got)


def _find_masked(due: NDArray[Any], got: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where both arrays have a mask value such as -1e9, which is far from all others and would hide them."""
    sizes = np.abs(np.where(np.isfinite(due), due, 0.0))
    large = sizes >= max(float(sizes.max(initial=0.0)) / FAR, LARGE)
    values = np.abs(due[large])
    if not values.size or large.all() or np.ptp(values) > LARGEST_HERE * values.max():
        return np.zeros(due.shape, bool)
    return np.asarray(large & (np.abs(got - due) <= LARGEST_HERE * sizes))


def _compare_lengths(due: NDArray[Any], got: NDArray[Any]) -> str:
    """Compare an output, and each channel or column of it, by the norm of the difference.

    If an output has boxes in the hundreds next to scores up to 1, the largest difference reflects the boxes only.
    """
    places: list[tuple[str, NDArray[Any], NDArray[Any]]] = [("", due, got)]
    for axis in range(1, due.ndim):
        if 1 < due.shape[axis] <= due.size // FEW:
            at = (f" at {[':'] * axis + [place]}".replace("'", "") for place in range(due.shape[axis]))
            places += zip(at, np.moveaxis(due, axis, 0), np.moveaxis(got, axis, 0), strict=True)
    for where, wanted, found in places:
        length = np.linalg.norm(wanted - wanted.mean())
        if wanted.size < FEW or length <= SMALLEST_TOLERANCE * np.linalg.norm(wanted):
            continue  # itself constant: its largest difference was compared
        if (share := float(np.linalg.norm(found - wanted) / length)) > LARGEST_NORM:
            return f"differs{where} by {share:.2g} of its own length; {LARGEST_NORM:g} is allowed"
    return ""
