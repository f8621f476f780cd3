"""A session: a worker with a loaded model that is run, timed, paused and resumed on command."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from hone_runtime.contract.job import Call, End
from hone_runtime.values.base import Json
from hone_runtime.values.operators import PRECISIONS
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host.full_disk import check_full_disk
from kedro_hone.core.workers.host.guarded import Guarded, LineReader

_Read = TypeVar("_Read")

_MOST_OPERATORS = 10**9


class Block(NamedTuple):
    """Calls by several clients at once: the time of each, and from the first start to the last end, in nanoseconds."""

    times: list[int]
    wall: int


class WorkerSession:
    """One long-lived worker with one model; made by ``core.workers.host.run.open_session``.

    Every command has the time limit in the worker's limits. Errors in the worker are returned as a ``Failed``. After a
    failure that ended the worker, every further command returns the same failure at once. ``commands`` and ``replies``
    are the descriptors to write to and to read from.
    """

    def __init__(self, call: Call, guarded: Guarded, *, commands: int, replies: int) -> None:
        self._call = call
        self._guarded = guarded
        self._failed: Failed | None = None
        self._commands = commands
        self._replies = LineReader(replies)
        self._paused = False
        self._closed = False

    def load(self, feeds: Path | None = None) -> float | Failed:
        """Import the toolchain and open the model; return the cold start in milliseconds.

        The cold start begins before the toolchain is imported. It ends when the model is loaded, or with ``feeds`` (an
        npz file) when it has run once.
        """
        path = None if feeds is None else str(feeds.absolute())
        reply = self._request("load", self._call.job.failure, feeds=path)
        return reply if isinstance(reply, Failed) else self._read(_read_cold_start, reply)

    def run(
        self, feeds: Path, output: Path, batch: int | None = None, *, seconds: float | None = None
    ) -> Failed | None:
        """Run all rows of an npz file (one array for each input, rows first) and write the outputs; nothing is checked.

        The outputs are an npz file inside the session's folder or one of the job's. ``batch`` is the number of rows of
        each call; None for all rows at once. A smaller last chunk is passed unchanged; if the model was specialized for
        static shapes, it is padded with its last row, and the outputs are cut. A run longer than ``seconds`` ends the
        worker, if these are fewer than its limit.
        """
        given, made = str(feeds.absolute()), str(output.absolute())
        reply = self._request("run", seconds=seconds, feeds=given, output=made, batch=batch)
        return reply if isinstance(reply, Failed) else None

    def run_together(self, feeds: Path, *, threads: int, calls: int) -> int | Failed:
        """Call the model from some threads at once, and return how many calls differ from a call on its own.

        Each thread has rows of its own, made from an npz file, and makes the given number of calls.
        """
        reply = self._request("run_together", feeds=str(feeds.absolute()), threads=threads, calls=calls)
        return reply if isinstance(reply, Failed) else self._read(_read_differing, reply)

    def arm(self, shape: str, feeds: Path, *, clients: int = 1) -> Failed | None:
        """Read the feeds of one shape, an npz file with exactly the rows of one call, into the worker's memory.

        Each client has a copy of its own.
        """
        reply = self._request("arm", shape=shape, feeds=str(feeds.absolute()), clients=clients)
        return reply if isinstance(reply, Failed) else None

    def time(self, shape: str, calls: int, *, warmup: int = 0) -> list[int] | Failed:
        """Return the wall-clock time in nanoseconds, inside the worker, of each of some calls at an armed shape.

        They are timed after ``warmup`` calls that are not measured, such as after a pause.
        """
        reply = self._request("time", shape=shape, calls=calls, warmup=warmup)
        return reply if isinstance(reply, Failed) else self._read(partial(_read_times, calls=calls), reply)

    def time_together(self, shape: str, calls: int, *, warmup: int = 0) -> Block | Failed:
        """Return the times of some calls by all clients of a shape at once, which was armed with several.

        They are timed after ``warmup`` calls by the same clients that are not measured.
        """
        reply = self._request("time_together", shape=shape, calls=calls, warmup=warmup)
        return reply if isinstance(reply, Failed) else self._read(partial(_read_block, calls=calls), reply)

    def count_operators(self, feeds: Path, *, seconds: float) -> dict[str, dict[str, int]] | Failed | None:
        """Return how many operators run for the feeds, an npz file, by precision and kind; None if not known.

        Nothing should be timed afterwards. After ``seconds`` the worker is ended.
        """
        reply = self._request("count_operators", seconds=seconds, feeds=str(feeds.absolute()))
        return reply if isinstance(reply, Failed) else self._read(_read_operators, reply)

    @property
    def ended(self) -> bool:
        """Whether a failure ended the worker: every further command returns it."""
        return self._failed is not None

    def pause(self) -> None:
        """Stop the worker and all its children (SIGSTOP), not the guard; return when they are stopped."""
        if not self._paused:
            self._guarded.request("pause", "paused")
            self._paused = True

    def resume(self) -> None:
        """Resume the worker and its children."""
        if self._paused:
            self._guarded.request("resume", "paused")
            self._paused = False

    def memory_bytes(self) -> int:
        """Return the resident memory of the worker and its children now; 0 when it is gone."""
        return int(self._guarded.request("memory", "memory") or 0)

    def peak_memory_bytes(self) -> int:
        """Return the peak resident memory of the worker and its children until now; 0 if it is gone."""
        return int(self._guarded.request("peak", "peak") or 0)

    def close(self) -> End:
        """End the worker and all its processes, and return how it ended when all are gone. Idempotent."""
        if not self._closed:
            self._closed = True
            self._guarded.close()
            for descriptor in (self._commands, self._replies.descriptor):
                os.close(descriptor)
            self._call.tidy()
        return self._guarded.wait()

    def _request(
        self, do: str, failure: FailureClass = FailureClass.CRASH, *, seconds: float | None = None, **arguments: Json
    ) -> dict[str, Json] | Failed:
        if self._paused or self._closed:
            raise RuntimeError(f"the session is {'closed' if self._closed else 'paused'}: no {do}")
        if self._failed is not None:
            return self._failed
        with contextlib.suppress(BrokenPipeError):  # it is dead: its guard reports how
            os.write(self._commands, json.dumps({"do": do, **arguments}).encode() + b"\n")
        try:
            reply = self._wait_for_reply(min(self._call.limits.seconds, seconds or math.inf))
        except ValueError as error:
            return self._refuse(error)
        if reply is None:
            end = self._guarded.end or End(reason="closed")
            self._failed = self._check_full_disk(self._call.explain_end(end), end)
            return self._failed

        def explain(error: Mapping[str, Json]) -> Failed:
            return self._check_full_disk(self._call.explain_error(error, failure))

        return self._read(explain, reply["error"]) if "error" in reply else reply

    def _read(self, read: Callable[[Json], _Read], reply: Json) -> _Read | Failed:
        try:
            return read(reply)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            return self._refuse(error)

    def _refuse(self, error: Exception) -> Failed:
        """End a worker after an invalid reply, so that later output is not mistaken for the next reply."""
        self._guarded.stop("closed")
        reason = f"the worker's reply cannot be read: {''.join(str(error).splitlines()[:1])}"
        self._failed = self._check_full_disk(self._call.fail(reason))
        return self._failed

    def _check_full_disk(self, failed: Failed, end: End | None = None) -> Failed:
        return check_full_disk(failed, self._call.written, self._call.folder, end)

    def _wait_for_reply(self, seconds: float) -> dict[str, Json] | None:
        """Return the next reply, or None if the worker ended instead; it is ended after ``seconds``."""
        deadline = time.monotonic() + seconds
        while (reply := self._replies.take()) is None:
            self._guarded.receive()
            if self._guarded.end is not None:
                return self._replies.take()
            readers = [self._guarded.reports] if self._replies.closed else [self._replies, self._guarded.reports]
            if not self._guarded.listen([reader.descriptor for reader in readers], deadline):
                self._guarded.stop("time-out")
                return None
        return reply


def _read_cold_start(reply: Json) -> float:
    milliseconds = float(reply["cold_start_ms"])
    if not (math.isfinite(milliseconds) and milliseconds >= 0):
        raise ValueError(f"a cold start of {milliseconds} ms")
    return milliseconds


def _read_times(reply: Json, *, calls: int) -> list[int]:
    times = [int(value) for value in reply["times"]]
    if len(times) != calls or min(times, default=0) < 0:
        raise ValueError(f"{len(times)} times, or negative ones, for {calls} calls")
    return times


def _read_block(reply: Json, *, calls: int) -> Block:
    times, wall = _read_times(reply, calls=calls), int(reply["wall"])
    if wall < max(times) or wall <= 0:
        raise ValueError(f"a block of {wall} ns, with a call of {max(times)} ns")
    return Block(times, wall)


def _read_operators(reply: Json) -> dict[str, dict[str, int]] | None:
    found = reply["operators"]
    if found is None:
        return None
    kinds = {name: {kind: int(count) for kind, count in each.items()} for name, each in found.items()}
    counts = [count for each in kinds.values() for count in each.values()]
    if not kinds.keys() <= {*PRECISIONS} or not all(0 <= count <= _MOST_OPERATORS for count in counts):
        raise ValueError(f"operators of the precisions {[*kinds]!r:.80}, or counts that are none")
    return kinds


def _read_differing(reply: Json) -> int:
    differing = int(reply["differing"])
    if differing < 0:
        raise ValueError(f"{differing} calls")
    return differing
