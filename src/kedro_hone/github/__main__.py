"""``python -m kedro_hone.github run`` and ``report``: the two steps of the Action."""

from __future__ import annotations

import click

from kedro_hone.cli.failures import explain_failures
from kedro_hone.github.reporting import report
from kedro_hone.github.runner import run


@click.command()
@click.argument("step", type=click.Choice(["run", "report"]))
@click.pass_context
def main(context: click.Context, step: str) -> None:
    """Do one step of the GitHub Action.

    The exit code of the pipelines is an output of ``run``; ``report`` exits by the verdict and the input ``fail-on``.
    """
    code = 0
    with explain_failures():
        if step == "run":
            run()
        else:
            code = report()
    context.exit(code)


if __name__ == "__main__":
    main()
