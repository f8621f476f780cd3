"""``kedro hone routes``: every route of the recipe, and how far it came in the last run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import click
from kedro.io import CatalogProtocol, DatasetError

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.measurement import RaceResult, Status, Validation
from hone_runtime.values.outcome import Refused
from kedro_hone.cli.plugins import print_table
from kedro_hone.graph import configure, read_catalog, read_parameters
from kedro_hone.recipe.plan import SOURCE, Plan, make_plan
from kedro_hone.recipe.schema import read_recipe


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def routes(*, as_json: bool) -> None:
    """List every route of this recipe, with what became of it in the last run."""
    configure()
    plan = make_plan(read_recipe(read_parameters()))
    last = LastRun(read_catalog())
    rows = []
    for step in plan.routes.ends:
        route = [step.namespace.split(".")[0], *(_name_adaptor(name, step.chosen) for name in step.route)]
        rows.append({"id": step.namespace, "route": route, "outcome": last.describe(step.namespace)})
    known = len(rows)
    rows += [{"id": name, "route": [name], "outcome": said} for name, said in last.describe_others(plan)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        print_table(("route", "last run"), fold_rows(rows, last), title=say_count(known, len(rows) - known))


def _name_adaptor(name: str, chosen: Mapping[str, Mapping[str, Json]]) -> str:
    """Return an adaptor's name with the values of those options that have several in the recipe."""
    values = [f"{option}={json.dumps(value)}" for option, value in chosen.get(name, {}).items()]
    return f"{name} ({', '.join(values)})" if values else name


class LastRun:
    """The results of the last run for each route in the project's catalog.

    Its race, confirmation and verdict only count if they are newer than their inputs: if a run ends before them, those
    of an earlier run remain.
    """

    def __init__(self, catalog: CatalogProtocol[Any, Any]) -> None:
        self._catalog = catalog
        self._race: RaceResult | None
        self._race, self._raced = self._read("race")
        confirmation, confirmed = self._read("confirmation")
        decision, decided = self._read("decision")
        current = confirmed >= self._raced
        self._finalists = {one.id: one for one in confirmation.finalists} if confirmation and current else {}
        self._winner = decision.winner if decision and current and decided >= confirmed else None

    def describe(self, name: str) -> str:
        """Return how far the route of a namespace came, in words."""
        outcome, built = self._read(f"{name}.outcome")
        if outcome is None:
            return "not run yet"
        known = self._race.validated.get(name) if self._race else None
        if self._race is None or known is None or self._raced < built:
            return "built" if isinstance(outcome, Artifact) else f"{outcome.kind}: {outcome.by}: {outcome.reason}"
        return self._describe_raced(name, self._race, known)

    def describe_others(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the candidates that the run itself made (composites), with how far each came."""
        if self._race is None:
            return []
        ends = {SOURCE, *(step.namespace for step in plan.routes.ends)}
        made = ((name, known) for name, known in self._race.validated.items() if name not in ends)
        return [(name, self._describe_raced(name, self._race, known)) for name, known in made]

    def _describe_raced(self, name: str, race: RaceResult, known: Validation) -> str:
        raced = next((one for one in race.standings if one.id == name), known)
        if raced.status is not Status.MEASURED:
            # If it was dropped in the race, the reason already states when, and how far behind it was.
            said = raced is not known and raced.status is Status.DROPPED
            return raced.reason if said else f"{raced.status.value.replace('_', ' ')}: {raced.reason}"
        finalist = self._finalists.get(name)
        if finalist is None:
            return "raced"
        if finalist.reason:
            return f"confirmed, but failed: {finalist.reason}"
        return "won" if name == self._winner else "confirmed"

    def find_obstacle(self, name: str) -> str:
        """Return why the model cannot be converted to the format that a route starts from, or an empty string."""
        outcome, _ = self._read(f"{name}.outcome")
        return outcome.reason if isinstance(outcome, Refused) and outcome.slug == "no-converter" else ""

    def _read(self, name: str) -> tuple[Any, int]:
        """Return a value and when it was saved, in nanoseconds; None if this version cannot read one."""
        try:
            dataset = self._catalog[name]
            return dataset.load(), dataset.read_time()
        except DatasetError:
            return None, 0


def say_count(routes: int, others: int) -> str:
    """Return how many routes there are, and how many candidates the last run made from them."""
    said = f"{routes} route{'' if routes == 1 else 's'}"
    return (
        f"{said}, and {others} candidate{'' if others == 1 else 's'} that the last run made of them" if others else said
    )


def fold_rows(rows: list[dict[str, Any]], last: LastRun) -> list[tuple[str, str]]:
    """Return the rows of the table: routes from a format that the model cannot be converted to are one row together."""
    folded = []
    for (start, obstacle), group in groupby(rows, key=lambda row: (row["route"][0], last.find_obstacle(row["id"]))):
        members = list(group)
        if obstacle:
            folded.append((f"{start} ▸ … ({len(members)} routes)", f"cannot be reached: {obstacle}"))
        else:
            folded += [(" ▸ ".join(row["route"]), row["outcome"]) for row in members]
    return folded
