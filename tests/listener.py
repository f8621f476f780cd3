"""A service of registry events in a project, as its user starts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from small_project import HANG, Project

SECRETS = {"HONE_MLFLOW_SECRET": "planted-secret-of-mlflow-0123", "HONE_LISTEN_TOKEN": "planted-token-of-people-0123"}


def write_rules(project: Project, *rules: dict[str, Any], **settings: Any) -> None:
    """Write ``listen.yml``; JSON is YAML."""
    given = {
        "rules": list(rules),
        "secrets": {"mlflow": "HONE_MLFLOW_SECRET", "token": "HONE_LISTEN_TOKEN"},
        "sweep": {"every": 5, "registries": ["models:/"]},
        **settings,
    }
    (project.root / "conf" / "base" / "listen.yml").write_text(json.dumps(given, indent=1))


@dataclass
class Listener:
    """A running service.

    Attributes:
        process: The process.
        log: The file of its log.
        url: Where it listens.
    """

    process: subprocess.Popen[bytes]
    log: Path
    url: str = ""

    def read_log(self) -> list[dict[str, Any]]:
        """The lines of this service's log, each of which is JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def call(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Call the interface for programs with the token."""
        headers = {"authorization": f"Bearer {SECRETS['HONE_LISTEN_TOKEN']}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=HANG) as response:  # noqa: S310 - our own server
            return json.loads(response.read())

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, newest first."""
        return self.call("/runs")

    def wait_for(self, uri: str, *states: str) -> dict[str, Any]:
        """Return the job of a version once it is in one of the states."""
        deadline = time.monotonic() + HANG
        while True:
            found = [job for job in self.jobs if job["uri"] == uri and job["state"] in states]
            if found:
                return found[0]
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the service by a signal, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(HANG)


def start_listener(project: Project, *arguments: str, number: int = 1) -> Listener:
    """Start ``kedro hone listen`` on a free port, and return it once it listens."""
    project.write()
    log = project.root.parent / f"listen-{number}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "kedro_hone", "hone", "listen", "--port", "0", *arguments],
            cwd=project.root,
            env=project.variables | SECRETS,
            stdout=stream,
            stderr=stream,
        )
    listener = Listener(process, log)
    deadline = time.monotonic() + HANG
    while not listener.url:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        listener.url = next((line["url"] for line in listener.read_log() if line["event"] == "listening"), "")
        time.sleep(0.05)
    return listener


def find_secrets(folder: Path) -> list[str]:
    """Return every file below a folder that holds one of the secrets."""
    secrets = [value.encode() for value in SECRETS.values()]
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if any(secret in path.read_bytes() for secret in secrets)]


__all__ = ["SECRETS", "Listener", "find_secrets", "start_listener", "urllib", "write_rules"]
