"""What a real run of the demo shows: its evidence, and its last lines on a terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from rich.console import Console

from kedro_hone.report.console import print_verdict
from kedro_hone.report.evidence import Evidence, parse_evidence

EVIDENCE: Final = Path(__file__).parents[1] / "examples" / "demo" / "evidence.json"
"""The evidence of one run of ``make run``; its machine is named in it."""
_WIDTH: Final = 100


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def read_demo() -> Evidence:
    """Return the evidence of the demo's run."""
    return parse_evidence(EVIDENCE.read_bytes())


def draw_terminal() -> str:
    """Return the last lines of the run, as rich draws a terminal in SVG."""
    console = Console(file=_Terminal(), record=True, width=_WIDTH, force_terminal=True, color_system="truecolor")
    print_verdict(read_demo(), console, folder=Path("data/hone/latest"))
    return console.export_svg(title="kedro-hone run", unique_id="kedro-hone")
