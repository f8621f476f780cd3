"""Servers as processes, started by the command line, in the environment that it builds."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from installations import find_environments
from prometheus_client.parser import text_string_to_metric_families

SECONDS = 180
"""Time limit of a start: other tests may use the processor, too."""


@dataclass
class Running:
    """A server that runs.

    Attributes:
        line: The line that it printed.
        log: The file with what it wrote to standard error.
    """

    process: subprocess.Popen[bytes]
    line: dict[str, Any]
    log: Path
    connections: list[http.client.HTTPConnection] = field(default_factory=list)

    @property
    def http_port(self) -> int:
        return int(self.line["http"].rpartition(":")[2])

    def connect(self, seconds: float = 60) -> http.client.HTTPConnection:
        self.connections.append(http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=seconds))
        return self.connections[-1]

    def call(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of one request on a connection of its own."""
        return send(self.connect(), path, body, **headers)

    def list_workers(self) -> list[int]:
        """Return the processes that serve."""
        supervisor = self.line["pid"]
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        return [int(one) for one in children]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


def send(connection: http.client.HTTPConnection, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Send a request, a POST if it has a body, and return the status and the JSON of the answer."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET" if body is None else "POST", path, content, named)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if "json" in answer.headers.get("content-type", "") else text


Serve = Callable[..., Any]


@contextmanager
def start(folder: Path, *arguments: str | Path) -> Iterator[Running]:
    log = folder / "log.txt"
    command = [sys.executable, "-m", "kedro_hone", "serve", *map(str, arguments)]
    ports = [] if "--http-port" in arguments else ["--http-port", "0", "--grpc-port", "0"]
    variables = {**os.environ, "HONE_HOME": str(find_environments().root), "SECRET_TOKEN": "never-in-the-server"}
    with (
        log.open("wb") as errors,
        subprocess.Popen([*command, *ports, "--json"], stdout=subprocess.PIPE, stderr=errors, env=variables) as process,
    ):
        assert process.stdout is not None
        try:
            text = process.stdout.readline()
            assert text, log.read_text()
            running = Running(process, json.loads(text), log)
            yield running
            for connection in running.connections:
                connection.close()
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_until(said: Callable[[], bool], seconds: float = 60) -> None:
    """Return when something is true."""
    due = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < due
        time.sleep(0.05)


def run_serve(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a server that does not start."""
    command = [
        sys.executable,
        "-m",
        "kedro_hone",
        "serve",
        "--http-port",
        "0",
        "--grpc-port",
        "0",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def read_metrics(server) -> dict[tuple[str, ...], float]:
    text = server.call("/metrics")[1].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(one.name, *sorted(one.labels.values())): one.value for one in samples}
