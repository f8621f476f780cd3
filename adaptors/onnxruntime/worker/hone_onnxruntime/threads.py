"""Threads of small graphs: calls of some microseconds are faster in the caller's thread alone.

To give parts of a call to other threads takes microseconds itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hone_runtime.sessions.shapes import MOST_SHAPES, find_shapes

Json = dict[str, Any]
Open = Callable[[Json, Mapping[str, Sequence[int]] | None], Any]
"""Opens a job's model for given shapes of all inputs, with the job's ``threads``."""

ALONE = "single_thread"
"""The key in an artifact's metadata of the shapes whose calls use no other thread: sizes of dimensions by name."""

_LONGEST = 100e-6
"""The longest call in seconds for which it is tried: in longer ones other threads gain more than they cost."""
_GAIN = 1.1
"""How many times faster a call must be: builds may run at once, and take the time of other threads."""
_BLOCKS, _CALLS = 25, 20
"""Both are measured by turns, in so many blocks of so many calls."""


def is_alone(job: Json, shapes: Mapping[str, Sequence[int]] | None) -> bool:
    """Return whether the metadata of a job's input list these shapes of the inputs as those of a single thread."""
    noted = job["input"].get("metadata", {}).get(ALONE)
    if not shapes or not isinstance(noted, list):
        return False
    inputs = job["input"].get("inputs", [])
    key = tuple(tuple(shapes[spec["name"]]) for spec in inputs)
    return any(find_shapes(inputs, sizes) == key for sizes in noted[:MOST_SHAPES])


def choose_alone(job: Json, fixed: Sequence[Json], open_one: Open) -> list[Json]:
    """Return those of the fixed shapes whose calls are faster in a single thread than in all of the job's."""
    return [sizes for sizes in fixed if int(job["threads"]) > 1 and _is_faster_alone(job, sizes, open_one)]


def _is_faster_alone(job: Json, sizes: Json, open_one: Open) -> bool:
    inputs = job["input"]["inputs"]
    key = find_shapes(inputs, sizes) or ()
    shapes = {spec["name"]: shape for spec, shape in zip(inputs, key, strict=True)}
    try:
        feeds = {spec["name"]: np.zeros(shapes[spec["name"]], np.dtype(spec["dtype"])) for spec in inputs}
        sessions = [open_one({**job, "threads": threads}, shapes) for threads in (int(job["threads"]), 1)]
        for session in sessions:
            _time(session, feeds)
        if _time(sessions[0], feeds) > _LONGEST:
            return False
        ratios = [_time(sessions[0], feeds) / _time(sessions[1], feeds) for _ in range(_BLOCKS)]
    except Exception as error:  # noqa: BLE001 - ONNX Runtime has classes of its own, and NumPy not every type
        print(f"not timed in a single thread for {sizes}: {str(error)[:300]}")  # noqa: T201 - the step's log
        return False
    return statistics.median(ratios) > _GAIN


def _time(session: Any, feeds: Mapping[str, Any]) -> float:
    """Return the seconds of a call, as a mean over a block of them."""
    begun = time.perf_counter()
    for _ in range(_CALLS):
        session.run(feeds)
    return (time.perf_counter() - begun) / _CALLS
