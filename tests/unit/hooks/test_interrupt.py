"""Ctrl-C while the interrupted thread holds a lock that printing needs, and before there is anything to confirm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_ctrl_c_is_told_and_ends_what_it_should(tmp_path):
    """In a process of its own: one that has loaded a toolchain may not survive a signal."""
    tests = Path(__file__).with_name("interruptions.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
