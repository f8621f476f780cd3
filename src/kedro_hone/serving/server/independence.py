"""Whether the rows of a model are independent, so that requests of several clients may be joined into one call."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Arrays, Run
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.rows import BATCH
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.composite import read_parts

_COMPARED: Final = 16
"""The number of rows of a joined call that are compared with calls of their own."""
_SCALES: Final = {"drawn": 1, "tenfold": 10, "hundredfold": 100}
"""Changes that draw the numbers of a row: up to this multiple of the largest one, or of all ids that are accepted."""
_LARGEST_ID: Final = 1 << 24
_CHANGES: Final = ("reversed", "smallest", "largest", "beyond", "zeros", "nan", "infinite", *_SCALES)
_VALID: Final = frozenset({"reversed"})
"""Changes that leave a row valid, whatever its numbers mean."""
_COUPLED: Final = frozenset(
    {"CumSum", "DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
)
"""Operators of ONNX whose result for a row depends on the other rows of a call."""
_FIXED: Final = {"zeros": 0, "nan": np.nan, "infinite": np.inf}
"""Changes that set all numbers of a row to one number; those that are not finite are for floating point only."""
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
    if coupled := sorted(_COUPLED & _list_operators(artifact)):
        raise _explain(name, f"Its operator {coupled[0]} computes with all rows of a call.")
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


def _list_operators(artifact: Artifact) -> set[str]:
    """Return the operators that the adaptors noted for a model, or for the parts of a composite."""
    noted = [artifact.metadata, *(part.metadata for part in read_parts(artifact))]
    listed = (one.get("operators") for one in noted)
    return {str(name) for names in listed if isinstance(names, list) for name in names}


def _find_influence(run: Run, feeds: Arrays, joined: Arrays) -> str:
    """Return how another first or last row changes the results of the other rows, as a clause; empty if it does not.

    Where activations are quantized at run time, their scale is that of all rows in a call: one row with large numbers
    takes the precision of all others. The kernels are the same in both calls, so results may differ by rounding only.
    """
    chosen = [set(feeds), *({name} for name in feeds if len(feeds) > 1)]  # together they may cancel each other
    ids = {name: _find_largest_id(run, feeds, name) for name, array in feeds.items() if array.dtype.kind in "iu"}
    for place, change, names in itertools.product((-1, 0), _CHANGES, chosen):
        others = slice(None, -1) if place else slice(1, None)
        changed = {
            name: _change_row(array, place, change, largest_id=ids.get(name)) if name in names else array
            for name, array in feeds.items()
        }
        if all(changed[name] is array for name, array in feeds.items()):
            continue
        try:
            found = run(changed)
        except Exception as error:  # noqa: BLE001 - runtimes raise anything
            if change in _VALID and len(names) == len(feeds):
                return f"a call with an unusual row fails with {type(error).__name__}"
            continue  # such a row is refused for all, and each request is then called alone
        for name, array in joined.items():
            if said := _compare(array[others], found[name][others]):
                return f"its output {name} {said}"
    return ""


def _compare(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> str:
    if before.dtype.kind != "f":
        return "" if np.array_equal(before, after) else "is another one"
    finite = np.isfinite(before)
    if not finite.any():
        return "has no finite number in the golden rows, so that nothing can be compared"
    if not np.array_equal(np.where(finite, 0, before), np.where(np.isfinite(after), 0, after), equal_nan=True):
        return "is no longer finite in the same places"
    sizes = np.where(finite, np.abs(before), 0).astype(np.float64)
    # Of each position: a large one hides no other.
    scale = np.maximum(sizes.max(axis=0), _ROUNDING * float(sizes.max()) or 1.0)
    changed = float((np.where(finite, np.abs(after.astype(np.float64) - before), 0) / scale).max())
    return "" if changed <= _ROUNDING else f"changes by {changed:.2g} of its largest value"


def _find_largest_id(run: Run, feeds: Arrays, name: str) -> int:
    """Return the largest whole number that an input takes, about: a vocabulary has ids that no golden row has."""

    def takes(number: int) -> bool:
        row = {one: array[:1] for one, array in feeds.items()}
        try:
            run({**row, name: np.full_like(row[name], number)})
        except Exception:  # noqa: BLE001 - runtimes raise anything
            return False
        return True

    least = max(int(feeds[name].max()), 1)
    most = min(_LARGEST_ID, int(np.iinfo(feeds[name].dtype).max))
    while 2 * least <= most and takes(2 * least):
        least *= 2
    step = least // 2
    while step > 0 and least < most:
        least += step if least + step <= most and takes(least + step) else 0
        step //= 2
    return least


def _change_row(
    array: np.ndarray[Any, Any], place: int, change: str, *, largest_id: int | None
) -> np.ndarray[Any, Any]:
    """Return rows of which one has other numbers: large, fixed, or the smallest or largest of all rows.

    The given array itself is returned if the change does not apply to its type.
    """
    kind = array.dtype.kind
    if (change in {"nan", "infinite"} and kind != "f") or (change not in {"reversed", "zeros"} and kind not in "fiub"):
        return array
    changed = array.copy()
    if kind == "b" and change != "reversed":
        changed[place] = change in {"largest", "beyond"}
        return changed
    if kind not in "fiu":
        changed[place] = np.flip(array[place]) if change == "reversed" else ""
        return changed
    if change in _FIXED:
        changed[place] = _FIXED[change]
        return changed
    largest = float(np.abs(np.where(np.isfinite(array), array, 0)).max(initial=0)) if kind == "f" else int(array.max())
    if change == "reversed":
        changed[place] = np.flip(array[place])
    elif change in _SCALES:
        scale = _SCALES[change]
        changed[place] = _draw(array, scale * max(largest, 1.0) if largest_id is None else largest_id, seed=scale)
    elif kind == "f":
        changed[place] = (-_LARGE if change == "smallest" else _LARGE) * max(largest, 1.0)
    elif change == "beyond":
        limits = np.iinfo(array.dtype)
        changed[place] = min(int(_LARGE) * max(largest, 1), limits.max)
    else:
        changed[place] = array.min() if change == "smallest" else largest
    return changed


def _draw(array: np.ndarray[Any, Any], most: float, *, seed: int) -> np.ndarray[Any, Any]:
    """Return a row of drawn numbers up to a size; of integers from the smallest of all rows."""
    random, shape = np.random.default_rng(seed), array.shape[1:]
    if array.dtype.kind == "f":
        return np.asarray(random.uniform(-most, most, shape))
    least = int(array.min())
    return np.asarray(random.integers(least, max(least, int(most)), shape, endpoint=True, dtype=np.int64))


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
