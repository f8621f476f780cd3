"""The groups that Kedro finds: ``cli`` in this project, ``commands`` through the entry point in any other."""

from __future__ import annotations

import click

from kedro_hone.cli.adaptor import adaptor
from kedro_hone.cli.registries import registries
from kedro_hone.cli.replay import replay
from kedro_hone.cli.report import report
from kedro_hone.cli.routes import routes
from kedro_hone.cli.run import run
from kedro_hone.cli.toolchains import toolchains


@click.group(name="kedro-hone")
def cli() -> None:
    """Make registered models faster, with proof."""


@click.group(name="kedro-hone")
def commands() -> None:
    """Make registered models faster, with proof."""


@click.group(name="hone")
def hone() -> None:
    """Routes, toolchains, registries, reports and replays of kedro-hone."""


for command in (routes, toolchains, registries, report, replay, adaptor):
    hone.add_command(command)
cli.add_command(run)
cli.add_command(hone)
commands.add_command(hone)
