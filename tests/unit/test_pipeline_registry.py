"""What each start of a command pays for."""

from __future__ import annotations

import subprocess
import sys


def test_what_only_an_exploration_needs_is_not_imported_by_each_command():
    code = "import sys, kedro_hone.pipeline_registry; sys.exit('optuna' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
