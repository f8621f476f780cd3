"""``kedro hone wire``: a published winner against its source, each behind the same server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hone_runtime.errors import HoneError
from kedro_hone.cli.signers import pull_allowed, signer_options, trust_option
from kedro_hone.cli.toolchain_builds import build_one
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.wire.comparison import Effort, compare_through_wire
from kedro_hone.serving.wire.packages import choose_environment
from kedro_hone.serving.wire.table import format_comparison


@click.command()
@click.argument("uri")
@click.option(
    "--clients",
    multiple=True,
    default=(1, 4, 16),
    show_default=True,
    type=click.IntRange(1, 256),
    help="How many clients call at once; once for each number.",
)
@click.option(
    "--launches",
    default=5,
    show_default=True,
    type=click.IntRange(2, 50),
    help="How often both servers are started; the intervals are over these.",
)
@click.option(
    "--seconds",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0.1, 600),
    help="The time of each turn; a launch has four for each number of clients.",
)
@signer_options
@trust_option
@click.option(
    "--output", "-o", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures as JSON, too."
)
def wire(
    uri: str, *, clients: tuple[int, ...], launches: int, seconds: float, file: Path | None, **options: Any
) -> None:
    """Measure a published winner against its source through the wire.

    URI is models:/name@alias, models:/name/version, or a folder. The source is pulled from its registry, and both are
    served in the same way on this machine. Clients call them by turns; the answers must be the recorded
    ones.
    """
    if file is not None and file.exists():
        raise HoneError(
            "option-invalid",
            "--output names a file that exists.",
            why=f"{file} would be replaced.",
            hint="Name another file, or remove it.",
        )
    effort = Effort(clients=tuple(dict.fromkeys(clients)), launches=launches, seconds=seconds)
    with pull_allowed(uri, options) as winner:
        environment = build_one(EnvironmentStore(), choose_environment(winner))
        found = compare_through_wire(
            winner, environment=environment, effort=effort, report=lambda line: click.echo(line, err=True)
        )
    for line in format_comparison(found):
        click.echo(line)
    if file is not None:
        file.write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
