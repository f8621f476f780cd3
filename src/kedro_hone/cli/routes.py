"""``kedro hone routes``: the routes of the recipe that fit the model, and how far each came in the last run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click
from kedro.io import CatalogProtocol, DatasetError
from rich.console import Console

from hone_runtime.text import clean_line
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format
from hone_runtime.values.measurement import BUDGET, RaceResult, Status, Validation
from hone_runtime.values.outcome import Refused
from kedro_hone.cli.plugins import print_table
from kedro_hone.graph import configure, find_root, read_catalog, read_parameters
from kedro_hone.pipelines.binding import digest_recipe
from kedro_hone.recipe.plan import SOURCE, Plan, make_plan, reach_steps
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.recipe.variants import name_variant
from kedro_hone.report.lines import flatten, is_terminal
from kedro_hone.search.sources.recognition import foresee_format

UNKNOWN: Final = (
    "The model's format is not known before its first run, which pulls it: then only the routes that fit it are listed."
)
UNREACHED: Final = "no converter of the recipe leads from the model's format to this route"


@click.command()
@click.option("--all", "everything", is_flag=True, help="List the routes that do not fit this model, too, by reason.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table, always of every route.")
def routes(*, everything: bool, as_json: bool) -> None:
    """List the routes of this recipe that fit the model, with what became of them in the last run."""
    configure()
    print_routes(everything=everything, as_json=as_json)


def print_routes(
    *, everything: bool = False, as_json: bool = False, source: Format | None = None, most: int | None = None
) -> None:
    """Print the routes of the current project's recipe that fit the model.

    Args:
        everything: Whether the others are printed, too, by reason.
        as_json: Whether to print JSON, always of every route.
        source: The format of the model, if it is known already.
        most: The largest number of routes in the table; None for all.
    """
    recipe, root = read_recipe(read_parameters()), find_root()
    plan, last = make_plan(recipe), LastRun(read_catalog())
    source = source or last.find_format(digest_recipe(recipe, project=root)["hone.model"])
    source = source or foresee_format(recipe, project=root)
    reached = {step.namespace for step in (reach_steps(plan.routes, source) if source else plan.routes.steps)}
    rows, unfit = list[dict[str, Any]](), dict[str, str]()
    for step in plan.routes.ends:
        name = step.namespace
        route = [name.split(".")[0], *(name_variant(adaptor, step.chosen) for adaptor in step.route)]
        rows.append({"id": name, "route": route, "outcome": last.describe(name)})
        if reason := last.find_obstacle(name) or ("" if name in reached else UNREACHED):
            unfit[name] = reason
    known = len(rows)
    rows += [{"id": name, "route": [name], "outcome": said} for name, said in last.describe_others(plan)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    shown = [(" ▸ ".join(row["route"]), row["outcome"]) for row in rows if row["id"] not in unfit]
    _print_rows(shown, title=format_route_count(known, len(rows) - known, unfit=len(unfit)), most=most)
    if everything:
        for reason, group in group_unfit(rows, unfit).items():
            _print_lines([f"{reason}:", *(f"  {route}" for route in group)])
    elif unfit:
        _print_lines([f"{_format_unfit(len(unfit))}; `kedro-hone routes --all` lists them by reason."])
    if source is None:
        _print_lines([UNKNOWN])


def _print_rows(rows: list[tuple[str, str]], *, title: str, most: int | None = None) -> None:
    """Print a table; off a terminal one line for each route, which is not wrapped: its columns are parted by a tab."""
    shown = rows[:most]
    if is_terminal(Console()):
        print_table(("route", "last run"), shown, title=title)
    else:
        _print_lines([title, *(f"{route}\t{flatten(outcome)}" for route, outcome in shown)])
    if len(rows) > len(shown):
        _print_lines([f"and {len(rows) - len(shown)} more"])


def _format_unfit(number: int) -> str:
    return "1 route does not fit this model" if number == 1 else f"{number} routes do not fit this model"


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(clean_line(line))


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
        """Return why a route does not fit the model, by the last run, or an empty string."""
        outcome, _ = self._read(f"{name}.outcome")
        return f"{outcome.by}: {outcome.reason}" if isinstance(outcome, Refused) and outcome.slug != BUDGET else ""

    def find_format(self, model: str) -> Format | None:
        """Return the format of the source; None if it was not pulled yet.

        ``model`` is the digest of the recipe's model: the catalog's source may be that of another one.
        """
        source, _ = self._read("source")
        known = isinstance(source, Artifact) and source.made_from.get("hone.model") == model
        return source.format if known else None

    def _read(self, name: str) -> tuple[Any, int]:
        """Return a value and when it was saved, in nanoseconds; None if this version cannot read one."""
        try:
            dataset = self._catalog[name]
            return dataset.load(), dataset.read_time()
        except DatasetError:
            return None, 0


def format_route_count(routes: int, others: int, *, unfit: int = 0) -> str:
    """Return how many routes fit the model, of how many, and how many candidates the last run made from them."""
    said = f"{routes} route{'' if routes == 1 else 's'}"
    if unfit:
        said = f"{routes - unfit} of {said} fit{'s' if routes - unfit == 1 else ''} this model"
    return (
        f"{said}, and {others} candidate{'' if others == 1 else 's'} that the last run made of them" if others else said
    )


def group_unfit(rows: Iterable[dict[str, Any]], unfit: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the routes that do not fit the model, by the reason; the most frequent reason first."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if reason := unfit.get(row["id"]):
            groups.setdefault(reason, []).append(" ▸ ".join(row["route"]))
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
