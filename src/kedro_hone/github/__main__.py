"""``python -m kedro_hone.github run`` and ``report``: the two steps of the Action."""

from __future__ import annotations

import click

from kedro_hone.cli.failures import explain_failures
from kedro_hone.github.reporting import report
from kedro_hone.github.running import run


@click.group()
def main() -> None:
    """Run the steps of the GitHub Action."""


@main.command("run")
def _run() -> None:
    """Run the pipelines; the verdict's exit code becomes an output and not this step's."""
    with explain_failures():
        run()


@main.command("report")
@click.pass_context
def _report(context: click.Context) -> None:
    """Write summary, outputs, annotations, comment and check run; exits as the verdict and ``fail-on`` say."""
    with explain_failures():
        code = report()
    context.exit(code)


if __name__ == "__main__":
    main()
