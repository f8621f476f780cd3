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

import pytest
from installations import find_environments, install_triton_client

from hone_runtime.values.outcome import Failed
from kedro_hone.serving.environment import SERVER

sys.path.insert(0, str(Path(__file__).parent))

import winners

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


@pytest.fixture(scope="session")
def server_environment() -> None:
    """Build the server's environment where `kedro-hone serve` finds it."""
    built = find_environments().ensure(SERVER)
    assert not isinstance(built, Failed), built.reason


@pytest.fixture(scope="session")
def triton_client() -> dict[str, str]:
    """Variables with which this interpreter finds Triton's client."""
    return {**os.environ, "PYTHONPATH": str(install_triton_client())}


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


@pytest.fixture
def serve(server_environment, tmp_path) -> Serve:
    """Return a function that starts a server as a context."""
    return lambda *arguments: start(tmp_path, *arguments)


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> Path:
    """A folder with winners, by their names."""
    folder = tmp_path_factory.mktemp("winners")
    winners.write_linear(folder / "linear")
    winners.write_mixed(folder / "mixed")
    winners.write_fixed(folder / "fixed")
    winners.write_odd(folder / "odd")
    winners.write_slow(folder / "slow")
    return folder


@pytest.fixture(scope="session")
def server(server_environment, models, tmp_path_factory) -> Iterator[Running]:
    """One server with four models and small limits."""
    names = ("linear", "mixed", "fixed", "odd")
    limits = ("--max-request-mb", "1", "--max-rows", "100")
    with start(tmp_path_factory.mktemp("server"), *(models / name for name in names), *limits) as running:
        yield running


def wait_until(said: Callable[[], bool], seconds: float = 60) -> None:
    """Return when something is true."""
    due = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < due
        time.sleep(0.05)
