"""``kedro hone init``: add kedro-hone to a Kedro project, or make a small project of a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from kedro.utils import find_kedro_project

from hone_runtime.text import clean_text
from hone_runtime.values.samples import SPLITS
from kedro_hone.scaffold.changes import apply_changes, format_diff
from kedro_hone.scaffold.project import PLACEHOLDER, Addition, find_package, plan_changes


@click.command()
@click.argument("source", required=False)
@click.option("--data", "pairs", multiple=True, metavar="SPLIT=PATH", help="Where a split is, such as gate=gate.csv.")
@click.option("--github", is_flag=True, help="Add a workflow that assesses pull requests.")
@click.option("--listen", is_flag=True, help="Add the rules of `kedro hone listen`.")
@click.option("--yes", "-y", is_flag=True, help="Write without a question.")
def init(*, source: str | None, pairs: tuple[str, ...], github: bool, listen: bool, yes: bool) -> None:
    """Add kedro-hone to this Kedro project, or make a project of this folder, for the model SOURCE.

    What would be written is shown first. Text is only added, and what is there already stays as it is.
    """
    root = find_kedro_project(Path.cwd()) or Path.cwd()
    addition = Addition(source=source or "", data=_read_pairs(pairs), github=github, listen=listen)
    changes = plan_changes(root, addition)
    if not changes:
        click.echo("Nothing to add: everything is there already.")
        return
    click.echo(clean_text(format_diff(changes, root)), nl=False)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Nothing was written. Without a terminal to ask on, add --yes.")
        click.confirm("Write this?", abort=True)
    apply_changes(changes)
    click.echo(f"Added to {len(changes)} file{'s' if len(changes) > 1 else ''}. Next:")
    if not source:
        click.echo(f"  name your model in conf/base, in place of {PLACEHOLDER}")
    missing = [name for name in SPLITS if name not in addition.data]
    if missing:
        click.echo(f"  put your data where conf/base says: {', '.join(missing)}")
    command = "kedro-hone run"
    more = " (or `kedro run --pipelines hone`, without an exit code for the verdict)" if find_package(root) else ""
    click.echo(f"  {command}{more}")


def _read_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the paths by split.

    Raises:
        click.BadParameter: One is no ``SPLIT=PATH``, or names another split.
    """
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not path or name not in SPLITS:
            said = f"{pair!r} is not SPLIT=PATH, for one of {', '.join(SPLITS)}"
            if not equals:
                said += f". To make the three of one file: kedro-hone optimize SOURCE --data {pair} --save FOLDER"
            raise click.BadParameter(said, param_hint="--data")
        found[name] = path
    return found
