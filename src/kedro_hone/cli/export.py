"""``kedro hone export``: a published winner as a folder that another server or runtime loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hone_runtime.text import clean_line
from kedro_hone.cli.names import check_server_name
from kedro_hone.cli.signers import pull_allowed, read_policy, signer_options, trust_option
from kedro_hone.serving.export.exports import TARGETS, Exported, export_winner, list_misfits
from kedro_hone.serving.export.target import Request


@click.command()
@click.argument("uri")
@click.option(
    "--to", "target", type=click.Choice([*TARGETS]), help="The target; without it, those that fit are listed."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="The folder, which must not exist or be empty; by default NAME-TARGET in the current one.",
)
@click.option(
    "--name",
    callback=check_server_name,
    help="The model's name in the server; by default the last part of the registry's.",
)
@click.option("--storage-uri", help="For kserve: the place from which KServe will load the models.")
@click.option("--max-batch", type=click.IntRange(min=2), help="Let the server merge calls up to this number of rows.")
@click.option(
    "--max-delay-ms",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    help="With --max-batch: how long the server waits for further rows.",
)
@signer_options
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def export(uri: str, *, target: str | None, name: str | None, as_json: bool, **options: Any) -> None:
    """Write a published winner as a folder that another server or runtime loads.

    URI is models:/name@alias, models:/name/version, or a folder. Its golden rows are run in the written files before
    the folder appears, if the winner's runtime is installed here. The folder's README has the commands that start the
    server, and a request with the expected response. Exit code 3: the target cannot run this winner.
    """
    request = Request(
        max_batch=options["max_batch"],
        max_delay_ms=options["max_delay_ms"],
        storage_uri=options["storage_uri"],
        verify=read_policy({one: options[one] for one in ("keys", "identity", "issuer")}),
        trusted=options["trust"] == "native",
    )
    with pull_allowed(uri, options, name=name) as winner:
        if target is None:
            _print_misfits(list_misfits(winner, request), as_json=as_json)
            return
        folder = options["output"] or Path(f"{winner.name}-{target}")
        _print_export(export_winner(winner, target, request, folder), as_json=as_json)


def _print_misfits(misfits: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({name: misfit or None for name, misfit in misfits.items()}, indent=2))
        return
    for name, misfit in misfits.items():
        click.echo(clean_line(f"{name:11s} {f'no: {misfit}' if misfit else 'fits'}"))


def _print_export(exported: Exported, *, as_json: bool) -> None:
    models = [model.name for model in exported.export.models]
    if as_json:
        document = {
            "target": exported.target.name,
            "folder": str(exported.folder),
            "models": models,
            "golden_rows": exported.gap or "agreed",
            "notes": exported.export.notes,
            "unverified": exported.target.unverified or None,
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(f"{exported.folder}: {', '.join(models)} for {exported.target.title}; see its README.md")
    click.echo(
        clean_line(f"golden rows: {f'not run: {exported.gap}' if exported.gap else 'agreed in the written files'}")
    )
    for note in exported.export.notes:
        click.echo(clean_line(f"note: {note}"))
    if exported.target.unverified:
        click.echo(f"unverified: {exported.target.unverified}")
