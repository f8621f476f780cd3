"""Whether the rows of a model are independent, so that requests of several clients may be joined into one call."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Arrays, Run
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.rows import BATCH
from hone_runtime.values.artifact import Artifact

_COMPARED: Final = 16
"""The number of rows of a joined call that are compared with calls of their own."""
_LARGE: Final = 1e3
"""A client may send numbers this many times as large as usual."""
_ROUNDING: Final = 1e-5
"""The largest change of a result by other rows of a call, relative to the largest result."""


def check_batching(name: str, artifact: Artifact, run: Run, *, golden: Golden | None, rows: int) -> None:
    """Check that a call of several rows gives the same results as a call for each.

    Args:
        name: The model's name.
        artifact: The artifact.
        run: Its call.
        golden: Its golden rows.
        rows: The largest number of rows of a joined call.

    Raises:
        HoneError: ``batching-unfit``.
    """
    if odd := [one.name for one in (*artifact.inputs, *artifact.outputs) if one.shape[:1] != (BATCH,)]:
        raise _explain(name, f"The first axis of {odd[0]} is not a dynamic number of rows.")
    if golden is None:
        raise _explain(name, "It has no golden rows with which joined calls could be compared.")
    feeds = vary_rows({key: packed.unpack() for key, packed in golden.inputs.items()}, rows)
    if all((array == array[:1]).all() for array in feeds.values()):
        raise _explain(name, "All its golden rows are equal, so that joined calls cannot be compared.")
    joined, host = run(feeds), read_host()
    for at in np.unique(np.linspace(0, rows - 1, _COMPARED, dtype=int)):
        single = run({key: array[at : at + 1] for key, array in feeds.items()})
        same = {key: array[at : at + 1] for key, array in joined.items()}
        if said := golden.find_result_difference(single, same, host=host):
            raise _explain(name, f"For the row {at} of {rows} rows {said}.")
    if said := _find_influence(run, feeds, joined):
        raise _explain(name, f"One client's rows change another's results: {said}.")


def _find_influence(run: Run, feeds: Arrays, joined: Arrays) -> str:
    """Return how another last row changes the results of the rows before it, as a clause; empty if it does not.

    Where activations are quantized at run time, their scale is that of all rows in a call: one row with large numbers
    takes the precision of all others. The kernels are the same in both calls, so results may differ by rounding only.
    """
    try:
        found = run({name: _change_last(array) for name, array in feeds.items()})
    except Exception as error:  # noqa: BLE001 - runtimes raise anything; it is shown, not lost
        return f"a call with an unusual last row fails with {type(error).__name__}"
    for name, array in joined.items():
        before, after = array[:-1], found[name][:-1]
        if before.dtype.kind != "f":
            if not np.array_equal(before, after):
                return f"its output {name} is another one"
            continue
        finite = np.isfinite(before)
        scale = float(np.abs(before[finite]).max(initial=0.0)) or 1.0
        changed = float(np.abs(after[finite].astype(np.float64) - before[finite]).max(initial=0.0)) / scale
        if not changed <= _ROUNDING or not np.array_equal(np.isfinite(after), finite):
            return f"its output {name} changes by {changed:.2g} of its largest value"
    return ""


def _change_last(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return rows with a last one of large numbers, or of the same whole numbers in another order."""
    changed = array.copy()
    changed[-1] = array[-1] * _LARGE if array.dtype.kind == "f" else np.flip(array[-1])
    return changed


def vary_rows(feeds: Arrays, rows: int) -> Arrays:
    """Return as many rows as requested: the given ones, then variations of these.

    The values of a row are moved along its last axis, so that token ids and classes remain valid; a single number is
    made larger.
    """
    return {name: _vary(array, rows) for name, array in feeds.items()}


def _vary(array: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    made = []
    for at in range(rows):
        turn, row = at // len(array), array[at % len(array)]
        if row.ndim and row.shape[-1] > 1:
            made.append(np.roll(row, turn, axis=-1))
        else:
            made.append((row * (1 + turn / rows)).astype(row.dtype) if row.dtype.kind == "f" else row)
    return np.stack(made)


def _explain(name: str, why: str) -> HoneError:
    return HoneError(
        "batching-unfit",
        f"Requests to {name} cannot be joined.",
        why=why,
        hint="Leave --max-batch out.",
    )
