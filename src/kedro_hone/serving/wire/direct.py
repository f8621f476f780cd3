"""Two artifacts called in one process, by turns, without a server: what the wire is compared with.

It runs by its path in the server's environment: ``python -P direct.py JOB.json``, with the files of ``runtime_files``
on ``PYTHONPATH``. A job has the ``folders`` of the baseline and of the candidate, ``threads``, a file ``inputs`` with
the arrays, and ``seconds`` for each turn. The turns are A B B A. It prints the times of the calls of each turn in
nanoseconds, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from hone_runtime.interfaces.tensors import Run
from hone_runtime.learner.manifest import read_artifact
from hone_runtime.learner.model import Learner

_FEWEST: Final = 5
"""Calls of a turn, also if they take longer than the turn."""
_WARM: Final = 0.2
"""The share of a turn's time before it, in which calls do not count."""


def run_turns(runs: tuple[Run, Run], feeds: dict[str, Any], *, seconds: float) -> list[list[int]]:
    """Return the times of the calls of each turn, in nanoseconds; the turns are A B B A."""
    turns = []
    for run in (runs[0], runs[1], runs[1], runs[0]):
        _call_for(run, feeds, seconds=seconds * _WARM)
        turns.append(_call_for(run, feeds, seconds=seconds))
    return turns


def _call_for(run: Run, feeds: dict[str, Any], *, seconds: float) -> list[int]:
    times, end = list[int](), time.perf_counter_ns() + int(seconds * 1e9)
    while len(times) < _FEWEST or time.perf_counter_ns() < end:
        start = time.perf_counter_ns()
        run(feeds)
        times.append(time.perf_counter_ns() - start)
    return times


def main(path: Path) -> None:
    """Run the job in a file."""
    job = json.loads(path.read_text(encoding="utf-8"))
    with np.load(job["inputs"], allow_pickle=False) as inputs:
        feeds = dict(inputs)
    first, second = (
        Learner(read_artifact(Path(folder)), Path(folder), interface="onnx", threads=job["threads"])
        for folder in job["folders"]
    )
    print(json.dumps(run_turns((first.run, second.run), feeds, seconds=job["seconds"])))  # noqa: T201 - its output


if __name__ == "__main__":
    main(Path(sys.argv[1]))
