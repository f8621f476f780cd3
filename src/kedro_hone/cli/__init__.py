"""The command line: ``kedro run`` with an exit code for each verdict, and everything else under ``kedro hone``.

Kedro finds ``cli`` in this project, and ``commands`` through the entry point in any other.
"""

from __future__ import annotations

from typing import Any

import click

from kedro_hone.cli.failures import explain, explain_failures
from kedro_hone.cli.plugins import adaptor, registries, toolchains
from kedro_hone.cli.routes import routes
from kedro_hone.cli.run import run
from kedro_hone.cli.runs import replay, report

_SUMMARY = "Make registered models faster, with proof."


class _Commands(click.Group):
    """Commands whose failures are explained."""

    @explain_failures()
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx)


hone = _Commands(
    "hone",
    commands=[routes, toolchains, registries, report, replay, explain, adaptor],
    help="Routes, toolchains, registries, reports, replays and errors of kedro-hone.",
)
cli = click.Group("kedro-hone", commands=[run, hone], help=_SUMMARY)
commands = click.Group("kedro-hone", commands=[hone], help=_SUMMARY)
