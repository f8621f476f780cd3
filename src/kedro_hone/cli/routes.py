"""``kedro hone routes``: every route of the recipe, and how far it came in the last run."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kedro_hone.cli.failures import explain_failures
from kedro_hone.core.text import clean_text
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.decision import Decision
from kedro_hone.core.values.measurement import Confirmation, RaceResult, Status
from kedro_hone.core.values.outcome import OUTCOME, Outcome, Refused
from kedro_hone.graph import configure, find_work, read_parameters
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe

_Kind = TypeVar("_Kind", bound=BaseModel)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@explain_failures
def routes(*, as_json: bool) -> None:
    """List every route of this recipe, with what became of it in the last run."""
    configure()
    last = LastRun(find_work() / "work")
    rows: list[dict[str, Any]] = [
        {
            "id": step.namespace,
            "route": [step.namespace.split(".")[0], *step.route],
            "outcome": last.describe(step.namespace),
        }
        for step in make_plan(read_recipe(read_parameters())).routes.ends
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("route", "last run", title=f"{len(rows)} routes")
    for row in fold_rows(rows, last):
        table.add_row(*(Text(clean_text(cell)) for cell in row))
    Console().print(table)


class LastRun:
    """What the last run left of each route.

    Its race, confirmation and verdict count where they are newer than what they were made from: a run that was ended
    before them leaves those of an earlier one.

    Args:
        work: The folder of the values between the nodes.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._race, self._raced = self._read("race", RaceResult)
        confirmation, confirmed = self._read("confirmation", Confirmation)
        decision, decided = self._read("decision", Decision)
        current = confirmed >= self._raced
        self._finalists = {one.id: one for one in confirmation.finalists} if confirmation and current else {}
        self._winner = decision.winner if decision and current and decided >= confirmed else None

    def describe(self, name: str) -> str:
        """Return how far the route of a namespace came, in words."""
        outcome = self.read_outcome(name)
        if outcome is None:
            return "not run yet"
        known = self._race.validated.get(name) if self._race else None
        if self._race is None or known is None or self._raced < self._find_outcome(name).stat().st_mtime_ns:
            return "built" if isinstance(outcome, Artifact) else f"{outcome.kind}: {outcome.by}: {outcome.reason}"
        standing = next((one for one in self._race.standings if one.id == name), known)
        if standing.status is not Status.MEASURED:
            status = standing.status.value.replace("_", " ")
            return standing.reason if standing.reason.startswith(status) else f"{status}: {standing.reason}"
        finalist = self._finalists.get(name)
        if finalist is None:
            return "raced"
        if finalist.reason:
            return f"confirmed, but failed: {finalist.reason}"
        return "won" if name == self._winner else "confirmed"

    def read_outcome(self, name: str) -> Outcome | None:
        """Return what the route made, or why it made nothing; None where this version has not run it."""
        try:
            return OUTCOME.validate_json(self._find_outcome(name).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def _find_outcome(self, name: str) -> Path:
        return self._work / f"{name}.outcome.json"

    def _read(self, name: str, kind: type[_Kind]) -> tuple[_Kind | None, int]:
        """Return a value and when it was written, in nanoseconds; None where there is none that this version reads."""
        path = self._work / f"{name}.json"
        try:
            return kind.model_validate_json(path.read_bytes()), path.stat().st_mtime_ns
        except (FileNotFoundError, ValidationError):
            return None, 0


def fold_rows(rows: list[dict[str, Any]], last: LastRun) -> list[tuple[str, str]]:
    """Return the rows of the table: routes from a format that the model cannot be converted to are one row together."""

    def find_obstacle(row: dict[str, Any]) -> tuple[str, str]:
        outcome = last.read_outcome(row["id"])
        if isinstance(outcome, Refused) and outcome.slug == "no-converter":
            return row["route"][0], outcome.reason
        return row["id"], ""

    folded = []
    for (start, obstacle), group in groupby(rows, key=find_obstacle):
        members = list(group)
        if obstacle:
            folded.append((f"{start} ▸ … ({len(members)} routes)", f"cannot be reached: {obstacle}"))
        else:
            folded += [(" ▸ ".join(row["route"]), row["outcome"]) for row in members]
    return folded
