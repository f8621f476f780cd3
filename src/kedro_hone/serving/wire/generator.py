"""Clients that send one request again and again: a process of its own, so that it shares nothing with the server.

It runs by its path and imports the standard library only. Each line of its input is a job, and it writes a line with
the result of each. A job is JSON:

- ``port``: the server's port of REST, on the loopback interface;
- ``request``: the whole HTTP request in base64;
- ``clients``: the number of connections, each with one request in flight;
- ``seconds``, ``fewest``: requests are sent for so long, and until so many were answered;
- ``warm``: requests are sent for so many seconds before, which do not count;
- ``pid``: the server's process, whose CPU time is read, with that of its children.

The result has ``seconds`` with the number of requests ``answered`` in that time, ``latencies`` of all requests in
nanoseconds, also of those in flight at the end, and ``cpu_seconds`` for all. ``different`` is the number of different
answers, and ``answers`` are the first of them: the length of the JSON part of each, and its body in base64. If an
answer is not 200, or does not come, the result is an ``error`` instead.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

_PATIENCE: Final = 60.0
"""How long an answer may take, in seconds."""
_LARGEST: Final = 64
"""How many different answers are returned: more differ in rounding, when requests are joined in batches."""
_PIECE: Final = 1 << 18
_TICK: Final = os.sysconf("SC_CLK_TCK")


class AnswerError(Exception):
    """The server refused a request, or did not answer."""


class Client:
    """One connection, which is kept alive, with one request in flight."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)  # noqa: FBT003 - it has no name
        self._request, self._unsent = request, memoryview(b"")
        self._received, self._due = bytearray(), 0
        self._head, self._json = 0, 0
        self.started = 0

    def start(self) -> None:
        """Send the request, as far as the system accepts it now."""
        self._unsent, self._due = memoryview(self._request), 0
        self._received.clear()
        self.started = time.perf_counter_ns()
        self.send()

    def send(self) -> None:
        """Send more of the request."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass

    @property
    def events(self) -> int:
        """The events that it waits for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def receive(self) -> tuple[int, bytes] | None:
        """Return the length of the JSON part and the body of the answer; None if it is not complete.

        Raises:
            AnswerError: It is not 200, or the connection was closed.
        """
        try:
            piece = self.socket.recv(_PIECE)
        except BlockingIOError:
            return None
        if not piece:
            raise AnswerError("the server closed the connection")
        self._received += piece
        if not self._due and not self._read_head():
            return None
        if len(self._received) < self._due:
            return None
        return self._json, bytes(self._received[self._head : self._due])

    def _read_head(self) -> bool:
        """Read the head if it is complete: the length of the answer, and of its JSON part."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        status, *lines = bytes(self._received[:end]).lower().split(b"\r\n")
        if status.split(b" ")[1:2] != [b"200"]:
            raise AnswerError(f"the server answered {bytes(self._received[:500]).decode(errors='replace')!r}")
        fields = dict(line.split(b":", 1) for line in lines)
        length = int(fields[b"content-length"])
        self._head, self._due = end + 4, end + 4 + length
        self._json = int(fields.get(b"inference-header-content-length", length))
        return True


class Phase:
    """What is counted while clients send requests, until enough were answered.

    The times of requests in flight at the end count as well: without them the slowest would be missing.
    """

    def __init__(self, *, seconds: float, fewest: int) -> None:
        self._nanoseconds, self._fewest = int(seconds * 1e9), fewest
        self.latencies: list[int] = []
        self.answered, self.begun, self.ended = 0, time.perf_counter_ns(), 0
        self.answers: set[tuple[int, bytes]] = set()
        self.hashes: set[int] = set()

    def note(self, client: Client, answer: tuple[int, bytes]) -> bool:
        """Count an answer; return whether its client sends the next request."""
        now = time.perf_counter_ns()
        self.latencies.append(now - client.started)
        self.hashes.add(hash(answer))
        if len(self.answers) < _LARGEST:
            self.answers.add(answer)
        if self.ended:  # the others are in flight still
            return False
        self.answered += 1
        if now - self.begun >= self._nanoseconds and self.answered >= self._fewest:
            self.ended = now
        return not self.ended


def run_phase(clients: list[Client], phase: Phase) -> None:
    """Send requests by all clients until the phase ends and every answer has arrived.

    Raises:
        AnswerError: An answer is not 200, or takes too long.
    """
    with selectors.DefaultSelector() as selector:
        for one in clients:
            one.start()
            selector.register(one.socket, one.events, one)
        waiting = len(clients)
        while waiting:
            ready = selector.select(_PATIENCE)
            if not ready:
                raise AnswerError(f"no answer in {_PATIENCE:g} seconds")
            for key, events in ready:
                client: Client = key.data
                if events & selectors.EVENT_WRITE:
                    client.send()
                if events & selectors.EVENT_READ and (answer := client.receive()) is not None:
                    if phase.note(client, answer):
                        client.start()
                    else:
                        waiting -= 1
                if client.events != key.events:
                    selector.modify(client.socket, client.events, client)


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a job; see the module.

    Raises:
        AnswerError, OSError: The server does not answer as it should.
    """
    request = base64.b64decode(job["request"])
    clients = [Client(job["port"], request) for _ in range(job["clients"])]
    try:
        run_phase(clients, Phase(seconds=job["warm"], fewest=1))
        before = read_cpu_seconds(job["pid"])
        phase = Phase(seconds=job["seconds"], fewest=job["fewest"])
        run_phase(clients, phase)
        used = read_cpu_seconds(job["pid"]) - before
    finally:
        for one in clients:
            one.socket.close()
    return {
        "seconds": (phase.ended - phase.begun) / 1e9,
        "latencies": phase.latencies,
        "answered": phase.answered,
        "cpu_seconds": used,
        "different": len(phase.hashes),
        "answers": [[length, base64.b64encode(body).decode()] for length, body in sorted(phase.answers)],
    }


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its living descendants, in seconds."""
    parents, used = dict[int, int](), dict[int, int]()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(place.name)], used[int(place.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    tree = [pid]
    for one in tree:  # grows while it is iterated
        tree += [child for child, parent in parents.items() if parent == one]
    return sum(used.get(one, 0) for one in tree) / _TICK


def main() -> None:
    """Run the jobs of the standard input."""
    for line in sys.stdin:
        try:
            result = run_job(json.loads(line))
        except (AnswerError, OSError) as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)  # noqa: T201 - the results are its output


if __name__ == "__main__":
    main()
