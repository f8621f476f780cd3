"""``kedro hone registries``: where models can come from and go to."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kedro_hone.cli.failures import describe_broken, explain_failures
from kedro_hone.core.contract.registries import read_registries


@click.command()
@explain_failures
def registries() -> None:
    """List every model registry, and what could not be imported."""
    offers = read_registries()
    table = Table("URI", "comes from", "implementation")
    for scheme, offer in offers.items():
        table.add_row(*map(Text, (f"{scheme}:/…" if scheme else "a path", offer.origin, offer.point.value)))
    console = Console()
    console.print(table)
    for scheme, offer in offers.items():
        if fault := offer.find_fault():
            console.print(describe_broken(f"{scheme} ({offer.origin})", fault), soft_wrap=True)
