from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import kedro
import pytest

from kedro_hone.core.text import open_logger

ROOT = Path(__file__).parents[3]
OURS = ROOT / "conf" / "logging.yml"
KEDROS = Path(kedro.__file__).parent / "framework" / "project" / "rich_logging.yml"
MESSAGE = "cannot open [/usr/lib/libx.so] [bold]bold[/bold]"


def log(path: Path, logger: str = "heats.logger") -> str:
    """Return what a process prints that has a logging configuration and logs ``MESSAGE``."""
    code = (
        "import logging.config, sys, yaml\n"
        "from kedro_hone.comparing import heats\n"
        "logging.config.dictConfig(yaml.safe_load(open(sys.argv[1])))\n"
        f"{logger}.warning('%s', sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(path), MESSAGE]
    done = subprocess.run(command, capture_output=True, text=True, env={"COLUMNS": "200", "TERM": "dumb"}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", [OURS, KEDROS], ids=["ours", "kedro's"])
def test_a_message_is_not_read_as_markup(path):
    assert MESSAGE in log(path)


def test_our_configuration_reads_no_markup_in_a_warning_of_a_library_either():
    assert MESSAGE in log(OURS, "logging.getLogger('py.warnings')")


def test_every_logger_of_ours_is_opened_here():
    folders = (ROOT / "src" / "kedro_hone", ROOT / "nodes", ROOT / "pipelines", ROOT / "adaptors")
    found = [path for folder in folders for path in folder.rglob("*.py") if "logging.getLogger" in path.read_text()]
    assert [path.relative_to(ROOT).as_posix() for path in found] == ["src/kedro_hone/core/text.py"]


def test_a_logger_that_is_opened_twice_has_one_filter():
    assert open_logger("kedro_hone.twice") is open_logger("kedro_hone.twice")
    assert len(logging.getLogger("kedro_hone.twice").filters) == 1
