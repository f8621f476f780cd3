"""``kedro hone routes``: every route of the recipe, and why some were refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kedro_hone.cli.failures import explain_failures
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import OUTCOME
from kedro_hone.graph import configure, find_work, read_parameters
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@explain_failures
def routes(*, as_json: bool) -> None:
    """List every route of this recipe, with what became of it in the last run."""
    configure()
    work = find_work() / "work"
    rows: list[dict[str, Any]] = [
        {
            "id": step.namespace,
            "route": [step.namespace.split(".")[0], *step.route],
            "outcome": _read_outcome(work / f"{step.namespace}.outcome.json"),
        }
        for step in make_plan(read_recipe(read_parameters())).routes.ends
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("route", "last run", title=f"{len(rows)} routes")
    for row in rows:
        table.add_row(" ▸ ".join(row["route"]), row["outcome"])
    Console().print(table)


def _read_outcome(path: Path) -> str:
    if not path.exists():
        return "not run yet"
    outcome = OUTCOME.validate_json(path.read_bytes())
    return "built" if isinstance(outcome, Artifact) else f"{outcome.kind}: {outcome.by}: {outcome.reason}"
