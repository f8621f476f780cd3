"""Ctrl-C while the interrupted thread holds a lock that printing needs, and before there is anything to confirm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_ctrl_c_is_told_and_ends_what_it_should(tmp_path):
    """In a process of its own: a worker of pytest in CI that had loaded a toolchain died at the first signal."""
    tests = Path(__file__).with_name("interruptions.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}", str(tests)]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
