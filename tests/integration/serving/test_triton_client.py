"""An independent client of the protocol, which others wrote: Triton's, over HTTP and gRPC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.toolchain


def test_every_endpoint_over_http_and_grpc(server, triton_client) -> None:
    script = Path(__file__).parent / "triton_calls.py"
    http = server.line["http"].removeprefix("http://")
    subprocess.run([sys.executable, script, http, server.line["grpc"]], check=True, env=triton_client, timeout=120)
    assert server.log.read_text() == ""
