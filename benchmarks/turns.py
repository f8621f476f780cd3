"""Contestants that take turns: each in a separate process, stopped while another one is measured."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Order = dict[str, Any]
"""The configuration of a process: its ``name``, the ``shapes``, and what its script needs."""

Times = dict[str, list[dict[str, list[float]] | None]]
"""By contestant: for each launch, the seconds of each burst by shape; None if it failed in that launch."""

BURST_SECONDS = 0.06
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}  # as in all workers


class Turns:
    """The process of one contestant, which is stopped except for its turns.

    Args:
        order: The configuration, passed to the script as JSON after ``--child``.
        script: The program. It prints ``ready``, and then one line for each line of its standard input.
    """

    def __init__(self, order: Order, *, script: str) -> None:
        command = [sys.executable, "-W", "ignore", script, "--child", json.dumps(order)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **KEEP_MEMORY},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.opened = self._read_line() == "ready"
        if self.opened:
            self._process.send_signal(signal.SIGSTOP)

    def ask(self, what: str) -> str:
        """Return the reply to one line; empty if the process has ended."""
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.write(f"{what}\n")
                self._process.stdin.flush()
        reply = self._read_line()
        self._process.send_signal(signal.SIGSTOP)
        return reply

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read_line(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""


def time_calls(call: Callable[[Any], object], feeds: Any, *, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median seconds, by a clock, of a burst of calls, after three that are not timed."""
    times: list[float] = []
    for _ in range(3):
        call(feeds)
    end = time.perf_counter() + BURST_SECONDS
    while len(times) < 5 or time.perf_counter() < end:
        start = clock()
        call(feeds)
        times.append(clock() - start)
    return statistics.median(times)


def launch(orders: list[Order], *, rounds: int, draw: random.Random, script: str) -> dict[str, dict[str, list[float]]]:
    """Start all, measure some rounds in turns, and return the seconds by name and shape; failed ones are left out."""
    with contextlib.ExitStack() as stack:
        turns: dict[str, Turns] = {}
        for order in draw.sample(orders, k=len(orders)):
            turn = Turns(order, script=script)
            stack.callback(turn.close)
            if turn.opened:
                turns[order["name"]] = turn
        shapes = orders[0]["shapes"]
        times: dict[str, dict[str, list[float]]] = {name: {shape: [] for shape in shapes} for name in turns}
        for _ in range(rounds):
            for shape in shapes:
                for name in draw.sample(sorted(times), k=len(times)):
                    reply = turns[name].ask(shape)
                    if reply:
                        times[name][shape].append(float(reply))
                    else:
                        times.pop(name)
        return times


def collect(launches: list[dict[str, dict[str, list[float]]]]) -> Times:
    """Return the results of ``launch`` for each launch, by contestant."""
    names = dict.fromkeys(name for each in launches for name in each)
    return {name: [each.get(name) for each in launches] for name in names}


def compare(times: Times, shape: str, *, winner: str) -> dict[str, tuple[float, float, float, float]]:
    """Return each configuration's time over the winner's (geometric mean, minimum and maximum), and its seconds.

    Each launch of a configuration is compared with the winner's in the same launch.
    """
    rows: dict[str, tuple[float, float, float, float]] = {}
    for name, launches in times.items():
        ratios = [
            statistics.median(theirs / ours for theirs, ours in zip(mine[shape], reference[shape], strict=True))
            for mine, reference in zip(launches, times[winner], strict=True)
            if mine and reference
        ]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            rows[name] = (
                mean,
                min(ratios),
                max(ratios),
                statistics.median(t for each in launches if each for t in each[shape]),
            )
    return rows
