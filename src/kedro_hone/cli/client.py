"""``kedro hone client``: generate a typed client of a published winner."""

from __future__ import annotations

from pathlib import Path

import click

from kedro_hone.cli.names import check_server_name
from kedro_hone.serving.client.folder import write_client
from kedro_hone.serving.client.interface import make_interface
from kedro_hone.serving.winner import pull_winner


@click.command()
@click.argument("uri")
@click.option(
    "--output",
    "-o",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder to write; it is empty or does not exist.",
)
@click.option("--name", callback=check_server_name, help="The model's name on the server; by default that in URI.")
def client(uri: str, *, folder: Path, name: str | None) -> None:
    """Write a typed client of a published winner to a folder.

    URI is models:/name@alias, models:/name/version, or a folder. What is written is a Python package, which calls
    servers of the Open Inference Protocol by gRPC or REST, and .proto files for other languages. The model's files are
    checked, and not opened.
    """
    with pull_winner(uri, name=name, trusted=True) as winner:  # code is not opened here
        interface = make_interface(winner)
    write_client(interface, folder)
    click.echo(
        f"{folder}: the package {interface.package}, with {interface.title}Client for the model {interface.model}"
    )
