"""Deliveries that come fast, some of them twice or forged, while the service is killed: each leads to one job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_project import HANG

pytestmark = pytest.mark.nightly

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "deliveries.py"


def test_deliveries_are_neither_lost_nor_doubled_by_a_kill_and_jobs_go_on():
    """What it prints of time and memory is not judged here: this machine may be busy."""
    command = [sys.executable, str(BENCHMARK), "--count", "1000", "--rate", "100", "--kills", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * HANG, check=False)
    assert "1000 deliveries (850 versions, 50 forged)" in done.stdout, done.stderr
    assert "1 kills;" in done.stdout
    assert "jobs: 0 missing, 0 doubled, 0 of forged deliveries" in done.stdout
    assert "0 were started twice; " in done.stdout
    assert "; 0 ended after the last kill" not in done.stdout
