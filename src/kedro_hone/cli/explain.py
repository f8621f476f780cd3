"""``kedro hone explain``: the page of an error."""

from __future__ import annotations

import click

from kedro_hone.core.errors import SLUGS, read_page


@click.command()
@click.argument("slug", type=click.Choice(SLUGS), metavar="SLUG")
def explain(slug: str) -> None:
    """Say why an error happens and what to do, by the name at its end."""
    click.echo(read_page(slug), nl=False)
