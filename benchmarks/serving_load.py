"""Does `kedro-hone serve` survive 16 clients for a minute while its processes are killed? No answer may be wrong.

Each client sends golden rows of a published winner, one row per request, and compares every answer with what the
winner returns in this process. A process of the server is killed every ten seconds::

    python benchmarks/serving_load.py models:/digits@honed
    python benchmarks/serving_load.py WINNER --clients 1 --kill-every 0 -- --max-batch 16

What follows ``--`` is passed to `serve`. The result is one JSON object: requests by their outcome, times, the largest
number of failures after one kill, and the memory of all processes at a quarter of the time and at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.interfaces.tensors import Arrays
from hone_runtime.learner.download import fetch_winner
from hone_runtime.learner.loader import load
from kedro_hone.serving.tensors import describe_tensors


@dataclass
class Counts:
    """What the clients saw.

    Attributes:
        answers: Requests by outcome: ``right``, ``wrong``, a status, or the name of an exception.
        seconds: How long each right one took.
    """

    answers: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def count_failures(self) -> int:
        """Return the number of requests without a right answer."""
        return self.answers.total() - self.answers["right"]


@dataclass(frozen=True)
class Row:
    """A request, and the right answer.

    Attributes:
        body: The request as JSON.
        due: The outputs by name.
    """

    body: bytes
    due: Arrays


def make_rows(uri: str) -> list[Row]:
    """Return a request for each golden row of a winner, with what the winner returns for it here."""
    with ExitStack() as stack:
        found = fetch_winner(uri, stack)
        golden = found.read_golden()
        if golden is None:
            sys.exit("The winner has no golden rows.")
        feeds = {name: packed.unpack() for name, packed in golden.inputs.items()}
        run = load(uri, interface="onnx").run
        types = {one.name: one.datatype for one in describe_tensors(found.artifact.inputs)}
        rows = list[Row]()
        for at in range(len(next(iter(feeds.values())))):
            row = {name: array[at : at + 1] for name, array in feeds.items()}
            inputs = [
                {"name": name, "datatype": types[name], "shape": array.shape, "data": array.ravel().tolist()}
                for name, array in row.items()
            ]
            rows.append(Row(json.dumps({"inputs": inputs}).encode(), run(row)))
        return rows


def judge(connection: http.client.HTTPConnection, path: str, row: Row) -> str:
    """Send a request, and return its outcome."""
    connection.request("POST", path, row.body)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != http.client.OK:
        return str(answer.status)
    for one in json.loads(content)["outputs"]:
        due = row.due[one["name"]]
        found = np.array(one["data"]).reshape(one["shape"])
        if due.dtype.kind in "OU":
            same = bool((found.astype(str) == due.astype(str)).all())
        else:
            same = found.shape == due.shape and bool(np.allclose(found, due, rtol=1e-3, atol=1e-4))
        if not same:
            return "wrong"
    return "right"


def call(port: int, path: str, rows: list[Row], counts: Counts, *, first: int, until: float) -> None:
    """Send one request after the other, on one connection while it lasts."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        at = first
        while time.monotonic() < until:
            at, started = at + 1, time.monotonic()
            try:
                outcome = judge(connection, path, rows[at % len(rows)])
            except (OSError, http.client.HTTPException) as error:
                outcome = type(error).__name__
                connection.close()
            if outcome == "right":
                counts.seconds.append(time.monotonic() - started)
            counts.answers[outcome] += 1


@contextmanager
def serve(uri: str, arguments: list[str]) -> Iterator[dict[str, Any]]:
    """Start a server, and return the line that it prints, with the seconds that it took."""
    command = [sys.executable, "-m", "kedro_hone", "serve", uri, "--http-port", "0", "--grpc-port", "0", "--json"]
    started = time.monotonic()
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
            line = process.stdout.readline()
            if not line:
                sys.exit("The server did not start.")
            yield {**json.loads(line), "start_seconds": round(time.monotonic() - started, 1)}
        finally:
            process.terminate()


def list_workers(supervisor: int) -> list[int]:
    """Return the processes that serve."""
    return [int(one) for one in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()]


def measure_memory(processes: list[int]) -> float:
    """Return the resident memory of the largest process, in MiB."""
    sizes = [0]
    for one in processes:
        try:
            sizes.append(int(Path(f"/proc/{one}/statm").read_text().split()[1]))
        except OSError:  # it was killed meanwhile
            continue
    return round(max(sizes) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def main() -> None:
    """Print the result; exit code 1 if an answer was wrong, or a request got another status."""
    parser = argparse.ArgumentParser(description="Load a server, and kill its processes.")
    parser.add_argument("uri")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--kill-every", type=float, default=10, help="seconds; 0 for never")
    parser.add_argument("--workers", type=int, default=2)
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    asked, more = parser.parse_args(given[:at]), given[at + 1 :]
    rows, counts = make_rows(asked.uri), Counts()
    with serve(asked.uri, ["--workers", str(asked.workers), *more]) as line:
        port, path = int(line["http"].rpartition(":")[2]), f"/v2/models/{line['models'][0]['name']}/infer"
        began = time.monotonic()
        until = began + asked.seconds
        threads = [
            threading.Thread(target=call, args=(port, path, rows, counts), kwargs={"first": at, "until": until})
            for at in range(asked.clients)
        ]
        for one in threads:
            one.start()
        result = {**watch(line["pid"], counts, asked, until=until), "start_seconds": line["start_seconds"]}
        for one in threads:
            one.join()
    times = np.array(counts.seconds) * 1000
    result |= {
        "answers": dict(counts.answers),
        "right_per_second": round(counts.answers["right"] / asked.seconds, 1),
        "median_ms": round(float(np.median(times)), 2),
        "p99_ms": round(float(np.quantile(times, 0.99)), 2),
    }
    print(json.dumps(result, indent=2))
    sys.exit(1 if any(name == "wrong" or name.isdigit() for name in counts.answers) else 0)


def watch(supervisor: int, counts: Counts, asked: argparse.Namespace, *, until: float) -> dict[str, Any]:
    """Kill processes until the time is over; return the memory, and the failures after each kill."""
    memory, after_kills, began = list[float](), list[int](), time.monotonic()
    next_kill = began + asked.kill_every if asked.kill_every else until + 1
    seen = 0
    while (now := time.monotonic()) < until:
        if now >= next_kill:
            after_kills.append(counts.count_failures() - seen)
            seen = counts.count_failures()
            os.kill(list_workers(supervisor)[0], signal.SIGKILL)
            next_kill += asked.kill_every
        memory.append(measure_memory(list_workers(supervisor)))
        time.sleep(0.25)
    after_kills.append(counts.count_failures() - seen)
    return {
        "memory_mb": [memory[len(memory) // 4], memory[-1]],
        "most_failures_after_a_kill": max(after_kills),
        "kills": len(after_kills) - 1,
    }


if __name__ == "__main__":
    main()
