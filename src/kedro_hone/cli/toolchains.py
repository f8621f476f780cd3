"""``kedro hone toolchains``: environments, versions, health and sizes, and what each can do."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kedro_hone.cli.failures import describe_broken, explain_failures
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.store import Environment, EnvironmentStore
from kedro_hone.core.errors import HoneError
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.text import clean_text


@click.group(invoke_without_command=True)
@click.option("--capabilities", metavar="NAME", help="Print what one toolchain can do on this machine.")
@click.pass_context
@explain_failures
def toolchains(context: click.Context, *, capabilities: str | None) -> None:
    """List, build and remove the toolchains' environments."""
    if capabilities:
        click.echo(_describe_capabilities(read_catalogue().find_toolchain(capabilities)))
    elif context.invoked_subcommand is None:
        context.invoke(list_)


@toolchains.command("list")
@explain_failures
def list_() -> None:
    """List every toolchain, with its environment."""
    catalogue = read_catalogue()
    table = Table("toolchain", "licence", "environment", "adaptors")
    for own, toolchain in catalogue.toolchains.items():
        names = [name.removeprefix(f"{own}.") for name, a in catalogue.adaptors.items() if a.toolchain == toolchain]
        row = (own, toolchain.licence.value, _describe_environment(toolchain), ", ".join(names))
        table.add_row(*map(Text, row))
    console = Console()
    console.print(table)
    for name, trace in catalogue.broken.items():
        console.print(describe_broken(name, trace), soft_wrap=True)


@toolchains.command()
@click.argument("names", nargs=-1)
@explain_failures
def build(names: tuple[str, ...]) -> None:
    """Build the environments of NAMES, or of all toolchains that are on by default."""
    catalogue = read_catalogue()
    for name in names or [name for name, toolchain in catalogue.toolchains.items() if toolchain.default]:
        built = build_environment(catalogue.find_toolchain(name))
        click.echo(f"{name:18s} {'built' if built.own else 'this interpreter'}")


@toolchains.command()
@click.argument("names", nargs=-1)
@explain_failures
def test(names: tuple[str, ...]) -> None:
    """Check that the environments of NAMES, or all that exist, are healthy."""
    catalogue = read_catalogue()
    for name in names or tuple(catalogue.toolchains):
        click.echo(f"{name:18s} {_describe_environment(catalogue.find_toolchain(name))}")


@toolchains.command()
@click.option("--days", default=30.0, show_default=True, help="Remove environments not used for so many days.")
@explain_failures
def gc(days: float) -> None:
    """Remove environments that no run has used for a while."""
    for stored in EnvironmentStore().collect(read_catalogue().toolchains.values(), days=days):
        click.echo(f"removed {stored.environment.toolchain} ({stored.size_bytes / 2**20:.0f} MiB)")


def _describe_capabilities(toolchain: Toolchain) -> str:
    path = toolchain.folder / "capabilities.yml"
    host = read_host()
    text = path.read_text() if path.exists() else "nothing is written down of this toolchain\n"
    return f"# this machine: {host.cores} cores, {host.instructions}, GPU: {host.gpu or 'none'}\n{text}"


def _describe_environment(toolchain: Toolchain) -> str:
    found = EnvironmentStore().ensure(toolchain, build=False)
    if not isinstance(found, Environment):
        return clean_text(f"not built: {found.reason}")
    return "its own, built" if found.own else "this interpreter"


def build_environment(toolchain: Toolchain) -> Environment:
    """Return the environment of a toolchain, built first when there is none.

    Raises:
        HoneError: ``toolchain-unbuildable``.
    """
    built = EnvironmentStore().ensure(toolchain)
    if isinstance(built, Environment):
        return built
    raise HoneError(
        "toolchain-unbuildable",
        f"The environment of {toolchain.name} cannot be built.",
        why=built.reason,
        hint=f"Read {built.log}; a full disk and a missing network are the usual reasons.",
    )
