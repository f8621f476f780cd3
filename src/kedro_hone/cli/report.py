"""``kedro hone report``: the last report, or another one."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from kedro_hone.cli.failures import explain_failures
from kedro_hone.core.errors import HoneError
from kedro_hone.graph import find_work
from kedro_hone.report.console import print_verdict
from kedro_hone.report.evidence import parse_evidence


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--open", "in_browser", is_flag=True, help="Open the page in the browser.")
@explain_failures
def report(folder: Path | None, *, in_browser: bool) -> None:
    """Print the report of the last run, or of the run in FOLDER."""
    place = folder or find_work() / "latest"
    path = place / "evidence.json"
    if not path.is_file():
        raise HoneError(
            "report-missing",
            f"There is no report in {place}.",
            why="A run writes evidence.json when it has come to a verdict.",
            hint="Run `kedro run`, or name a run's folder in data/hone/runs.",
        )
    print_verdict(parse_evidence(path.read_bytes()), Console(), folder=place)
    if in_browser:
        click.launch(str((place / "report.html").absolute()))
