"""Dynamic batching: the rows of several clients in one call of a model.

It pays if a call of sixteen rows takes much less time than sixteen calls. A single client waits for nothing but the
delay. Only models whose rows are independent can do it, which is checked before the server is ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Arrays, Run
from hone_runtime.learner.golden import Golden
from hone_runtime.values.artifact import Artifact
from kedro_hone.serving.server.checks import BATCH
from kedro_hone.serving.server.configuration import Batching

_COMPARED: Final = 16
"""The number of rows that are compared before a server is ready."""
Call = Callable[[Arrays, float], Awaitable[Arrays]]
"""Calls a model in its thread; the number is the time at which its first request came."""


@dataclass(frozen=True, kw_only=True)
class _Item:
    """A request that waits for its result."""

    feeds: Arrays
    rows: int
    kind: tuple[Any, ...]
    since: float
    result: asyncio.Future[Arrays]


class Batcher:
    """Joins the calls that come within some milliseconds.

    Args:
        call: Calls the model.
        batching: The largest number of rows, and the delay.
    """

    def __init__(self, call: Call, batching: Batching) -> None:
        self._call, self._batching = call, batching
        self._waiting: deque[_Item] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self, feeds: Arrays) -> Arrays:
        """Return the outputs for the rows of one request.

        Raises:
            Exception: As raised by the model; all requests of a joined call get it.
        """
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve())
        rows = len(next(iter(feeds.values())))
        kind = tuple((name, array.shape[1:]) for name, array in sorted(feeds.items()))
        item = _Item(feeds=feeds, rows=rows, kind=kind, since=loop.time(), result=loop.create_future())
        self._waiting.append(item)
        self._woken.set()
        return await item.result

    async def _serve(self) -> None:
        while True:
            while not self._waiting:
                self._woken.clear()
                await self._woken.wait()
            await self._wait()
            items = self._take()
            if items:
                await self._answer(items)

    async def _wait(self) -> None:
        """Return when the delay of the first request is over, or a call is full."""
        loop = asyncio.get_running_loop()
        due = self._waiting[0].since + self._batching.delay_ms / 1000
        while sum(item.rows for item in self._waiting) < self._batching.rows and (rest := due - loop.time()) > 0:
            self._woken.clear()
            try:
                await asyncio.wait_for(self._woken.wait(), rest)
            except TimeoutError:
                return

    def _take(self) -> list[_Item]:
        """Remove and return the requests of the next call: as many of the first one's kind as fit."""
        taken, left, rows = list[_Item](), list[_Item](), 0
        for item in self._waiting:
            if item.result.done():  # its client is gone
                continue
            if not taken or (item.kind == taken[0].kind and rows + item.rows <= self._batching.rows):
                taken.append(item)
                rows += item.rows
            else:
                left.append(item)
        self._waiting = deque(left)
        return taken

    async def _answer(self, items: list[_Item]) -> None:
        try:
            outputs = await self._call(join_rows([item.feeds for item in items]), items[0].since)
            results = split_rows(outputs, [item.rows for item in items])
        except Exception as error:  # noqa: BLE001 - each of its requests raises it
            for item in items:
                if not item.result.done():
                    item.result.set_exception(error)
            return
        for item, result in zip(items, results, strict=True):
            if not item.result.done():
                item.result.set_result(result)


def join_rows(feeds: list[Arrays]) -> Arrays:
    """Return the rows of several requests as those of one."""
    return feeds[0] if len(feeds) == 1 else {name: np.concatenate([one[name] for one in feeds]) for name in feeds[0]}


def split_rows(outputs: Arrays, rows: list[int]) -> list[Arrays]:
    """Return the outputs of each request, given its number of rows.

    Raises:
        ValueError: An output has another number of rows than the inputs.
    """
    ends = np.cumsum(rows)
    if odd := [name for name, array in outputs.items() if not array.ndim or len(array) != ends[-1]]:
        raise ValueError(f"the output {odd[0]} has another number of rows than the inputs")
    if len(rows) == 1:
        return [outputs]
    spans = list(zip(ends - rows, ends, strict=True))
    return [{name: array[start:end] for name, array in outputs.items()} for start, end in spans]


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
        hint="Serve it without --max-batch.",
    )
