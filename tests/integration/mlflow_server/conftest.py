"""MLflow's own server. What it imports beyond this project's environment is installed into a folder of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
from cryptography.fernet import Fernet
from installations import install_mlflow_server

HANG = 600


@pytest.fixture(scope="session")
def uri(tmp_path_factory):
    """The server's address."""
    with serve(install_mlflow_server(), tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="session")
def old_uri(tmp_path_factory):
    """The address of a server of MLflow 2.20."""
    with serve(install_mlflow_server("2.20"), tmp_path_factory.mktemp("old")) as address:
        yield address


@contextmanager
def serve(packages, place):
    """Run a server with its stores in a folder, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-W", "ignore", "-m", "mlflow", "server", "--workers", "1", "--port", address[17:]]
    stores = ["--backend-store-uri", f"sqlite:///{place}/mlflow.db", "--artifacts-destination", place / "artifacts"]
    more = {"PYTHONPATH": str(packages), "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}
    more |= {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    # Webhooks may go to this machine, and a new one counts at once.
    more |= {"MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http", "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true"}
    more |= {"MLFLOW_WEBHOOK_CACHE_TTL": "0", "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode()}
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, *stores], env=os.environ | more, stdout=log, stderr=log, cwd=place, start_new_session=True
        )
    try:
        deadline = time.monotonic() + HANG
        while True:
            assert server.poll() is None, (place / "log").read_text()
            try:
                urllib.request.urlopen(f"{address}/health", timeout=10).read()  # noqa: S310 - our own server
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # asked to end, it would wait for connections that a test froze
        server.wait(HANG)
