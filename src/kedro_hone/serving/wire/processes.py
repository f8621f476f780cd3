"""The processes of a comparison: the two servers, the clients, and the calls without a server."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from hone_runtime.errors import SLUGS, HoneError
from hone_runtime.text import clean_line
from kedro_hone.serving.wire import direct, generator

_START_SECONDS: Final = 300.0
"""How long a server may take until it is ready: on a busy machine the imports alone take a minute."""
_STOP_SECONDS: Final = 20.0
_SLUG: Final = re.compile(r"more: kedro-hone explain ([a-z-]+)")


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that is ready.

    Attributes:
        port: The port of REST, on the loopback interface.
        pid: Its first process.
    """

    port: int
    pid: int


@contextmanager
def start_server(command: list[str], variables: Mapping[str, str], *, name: str, log: Path) -> Iterator[Running]:
    """Start a server, wait until it is ready, and stop it at the end.

    Args:
        command: The program with its arguments; it prints one line of JSON when it is ready.
        variables: Its environment.
        name: What is served, for the error.
        log: The file of its messages.

    Raises:
        HoneError: ``serving-failed``: it ended before it was ready, or was not ready in time.
    """
    with log.open("wb") as messages:
        process = subprocess.Popen(
            command, env=dict(variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages
        )
    try:
        line = _read_line(process.stdout, seconds=_START_SECONDS) if process.stdout else b""
        if not line:
            raise _explain(f"The server of {name} did not start.", log)
        found = json.loads(line)
        yield Running(port=int(str(found["http"]).rpartition(":")[2]), pid=process.pid)
    finally:
        _stop(process)


def measure_directly(python: str, variables: Mapping[str, str], job: Mapping[str, Any], path: Path) -> list[list[int]]:
    """Return the times of calls without a server; see ``direct``.

    Raises:
        HoneError: ``serving-failed``.
    """
    path.write_text(json.dumps(job), encoding="utf-8")
    log = path.with_suffix(".log")
    with log.open("wb") as messages:
        run = subprocess.run(
            [python, "-P", str(direct.__file__), str(path)],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            check=False,
        )
    if run.returncode:
        raise _explain("The calls without a server failed.", log)
    times: list[list[int]] = json.loads(run.stdout.splitlines()[-1])
    return times


class Clients:
    """A process with clients, which does one job after the other."""

    def __init__(self, jobs: IO[bytes], results: IO[bytes]) -> None:
        self._input, self._output = jobs, results

    def measure(self, running: Running, request: bytes, *, clients: int, seconds: float, fewest: int) -> dict[str, Any]:
        """Return the result of a job of ``generator``; the answers are bytes with the length of their JSON part.

        Raises:
            HoneError: ``serving-failed``: the server refused a request, or did not answer.
        """
        job = {
            "port": running.port,
            "pid": running.pid,
            "request": b64encode(request).decode(),
            "clients": clients,
            "seconds": seconds,
            "fewest": fewest,
            "warm": seconds / 10,
        }
        self._input.write(json.dumps(job).encode() + b"\n")
        self._input.flush()
        result: dict[str, Any] = json.loads(self._output.readline() or '{"error": "the clients ended"}')
        if "error" in result:
            raise HoneError(
                "serving-failed",
                "The server failed while it was measured.",
                why=clean_line(str(result["error"])),
                hint="No figures are reported. Look at the server's messages: start it by `kedro-hone serve`.",
            )
        return {**result, "answers": [(length, b64decode(body)) for length, body in result["answers"]]}


@contextmanager
def start_clients() -> Iterator[Clients]:
    """Start a process for clients, and end it at the end; it imports the standard library only."""
    command = [sys.executable, "-P", str(generator.__file__)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_find_variables()) as process:
        try:
            if process.stdin and process.stdout:
                yield Clients(process.stdin, process.stdout)
        finally:
            process.kill()


def _find_variables() -> dict[str, str]:
    """Return the variables of a process that needs none of ours."""
    return {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL"}}


def _read_line(stream: IO[bytes], *, seconds: float) -> bytes:
    """Return the next line; what there is of it if the stream ends, or if the time does."""
    end, found = time.monotonic() + seconds, b""
    while not found.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(stream.fileno(), 4096) if ready else b""
        if not piece:
            break
        found += piece
    return found


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _explain(what: str, log: Path) -> HoneError:
    """Return the error for a process that failed, with the class of the error that it printed, if it is one of ours."""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    named = [found[1] for line in lines if (found := _SLUG.fullmatch(line.strip()))]
    return HoneError(
        named[-1] if named and named[-1] in SLUGS else "serving-failed",
        what,
        why=[clean_line(line) for line in lines[-8:]] or "It printed nothing.",
        hint="Serve it alone by `kedro-hone serve`, which prints all messages.",
    )
