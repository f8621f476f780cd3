"""Deliveries that come while the service is killed, some of them twice or forged: each leads to one job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_project import HANG

pytestmark = pytest.mark.nightly

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "deliveries.py"


def test_each_acknowledged_delivery_is_one_job_through_five_kills_and_none_that_is_forged():
    """What it prints of time is not judged here: this machine may be busy."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARK)], capture_output=True, text=True, timeout=8 * HANG, check=False
    )
    assert "3000 deliveries (2550 versions, 150 forged) at 50 a second" in done.stdout, done.stderr
    assert "5 kills;" in done.stdout
    assert "jobs: 0 missing, 0 doubled, 0 of forged deliveries" in done.stdout
    assert "0 were started twice; " in done.stdout
    assert "; 0 ended after the last kill" not in done.stdout
    assert "; 0 wrong responses" in done.stdout
