"""What is plugged in: ``kedro hone toolchains`` with their environments, ``registries`` and ``adaptor test``."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hone_runtime.contract.adaptor import Need
from hone_runtime.contract.catalogue import Catalogue, read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.registries import find_broken, read_registries
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.text import clean_line, clean_text
from hone_runtime.values.outcome import Failed
from kedro_hone.cli.capabilities import print_capabilities
from kedro_hone.cli.probes import WORKS, probe
from kedro_hone.cli.toolchain_builds import build_all
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.environment import SERVERS


@click.group(invoke_without_command=True)
@click.option("--capabilities", metavar="NAME", help="Print what one toolchain can do on this machine.")
@click.pass_context
def toolchains(context: click.Context, *, capabilities: str | None) -> None:
    """List, build and remove the toolchains' environments."""
    if capabilities is not None:
        print_capabilities(read_catalogue(), capabilities)
    elif context.invoked_subcommand is None:
        context.invoke(list_)


@toolchains.command("list")
def list_() -> None:
    """List every toolchain, with its environment."""
    catalogue = read_catalogue()
    rows = []
    for own, toolchain in catalogue.toolchains.items():
        names = [name.removeprefix(f"{own}.") for name, a in catalogue.adaptors.items() if a.toolchain == toolchain]
        environment = EnvironmentStore().ensure(toolchain, build=False)
        described = _describe_environment(environment) if isinstance(environment, Environment) else "none"
        rows.append((own, toolchain.licence.value, described, ", ".join(names)))
    for server in SERVERS.values():
        environment = EnvironmentStore().ensure(server, build=False)
        described = _describe_environment(environment) if isinstance(environment, Environment) else "none"
        rows.append((server.name, server.licence.value, described, "none: `kedro-hone serve` runs in it"))
    print_table(("toolchain", "licence", "environment", "adaptors"), rows, broken=catalogue.broken)
    if any(described == "none" for _, _, described, _ in rows):
        click.echo("none: `kedro-hone toolchains test NAME` prints the reason, and what to do")


@toolchains.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All toolchains, including those that are off by default.")
@click.option(
    "--wheels",
    type=click.Path(path_type=Path),
    help="A folder of wheels to install from, without a package index; HONE_WHEELS does the same.",
)
def build(names: tuple[str, ...], *, every: bool, wheels: Path | None) -> None:
    """Build the environments of NAMES, or of all toolchains that are on by default, and tell how large each is.

    The environments of `kedro-hone serve` are built by their names, kserve and kserve_torch.
    """
    known = read_catalogue()
    chosen = [_find(known, name) for name in names or known.toolchains]
    chosen = [one for one in chosen if names or every or one.default]
    unusable = {one.name: reason for one in chosen if (reason := find_missing(known, one) or _find_unlocked(one))}
    for name, reason in unusable.items():
        if names:
            hint = (
                "Build it on the machine that will use it, or name an interpreter in hone.environments of the recipe."
            )
            what = f"The environment of {name} is not built here."
            raise HoneError("toolchain-unbuildable", what, why=f"The toolchain {reason}.", hint=hint)
        click.echo(clean_line(f"{name:18s} left out: it {reason}"))
    build_all([one for one in chosen if one.name not in unusable], wheels=wheels and wheels.absolute())


@toolchains.command()
@click.argument("names", nargs=-1)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="The interpreter to check, in place of the environment of the one toolchain in NAMES.",
)
def test(names: tuple[str, ...], *, python: Path | None) -> None:
    """Check that the environments of NAMES, or all that exist, are healthy, and what this machine lacks for them.

    Each adaptor that computes on a GPU is tried there. Exit code 1: one of these does not work, or the interpreter of
    --python does not do.
    """
    if python and len(names) != 1:
        raise click.UsageError("--python is the interpreter of one toolchain: name that toolchain")
    catalogue, works = read_catalogue(), True
    named = Path(os.path.normpath(python.expanduser().absolute())) if python else None
    store = EnvironmentStore(named={names[0]: named} if named else None)
    for name in names or tuple(catalogue.toolchains):
        toolchain = _find(catalogue, name)
        missing, environment = find_missing(catalogue, toolchain), store.ensure(toolchain, build=False)
        works &= named is None or isinstance(environment, Environment)
        described = _describe_environment(environment)
        said = f"{described}; it {missing}" if named and missing else missing or described
        click.echo(clean_line(f"{name:18s} {said}"))
        if missing is None and isinstance(environment, Environment):
            for adaptor in (one for one in catalogue.adaptors.values() if one.toolchain.name == name):
                if Need.GPU in adaptor.needs:
                    found = probe(adaptor, environment, logs=store.root / "logs")
                    click.echo(clean_line(f"  {adaptor.name}: {found}"))
                    works &= found == WORKS
    sys.exit(0 if works else 1)


@toolchains.command()
@click.option(
    "--days", default=30.0, show_default=True, help="Remove environments that were not used for this many days."
)
def gc(days: float) -> None:
    """Remove environments that no run has used for a while."""
    known = [*read_catalogue().toolchains.values(), *SERVERS.values()]
    for environment, size in EnvironmentStore().collect(known, days=days):
        click.echo(f"removed {environment.toolchain} ({size / 2**20:.0f} MiB)")


@click.command()
def registries() -> None:
    """List every model registry, and what could not be imported."""
    offers = read_registries()
    rows = [(f"{name}:" if name else "a path", offer.origin, offer.target) for name, offer in offers.items()]
    print_table(("URI", "comes from", "implementation"), rows, broken=find_broken(offers.values()))


@click.group()
def adaptor() -> None:
    """Commands for authors of adaptors."""


@adaptor.command("test")
@click.argument("path")
def test_adaptor(path: str) -> None:
    """Run the tests in PATH, which subclass kedro_hone.testing.AdaptorSuite."""
    try:
        import pytest  # noqa: PLC0415 - only those who write adaptors have it
    except ImportError as error:
        raise click.ClickException("the suite runs under pytest: pip install pytest") from error
    sys.exit(pytest.main(["--import-mode=prepend", path]))  # tests can import files next to them


def print_table(
    headers: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    title: str | None = None,
    broken: Mapping[str, BaseException] | None = None,
) -> None:
    """Print a table, and failed imports with their tracebacks; nothing in them is interpreted as markup."""
    table = Table(*headers, title=title)
    for row in rows:
        table.add_row(*(Text(clean_line(cell), overflow="fold") for cell in row))
    console = Console()
    console.print(table)
    for place, error in (broken or {}).items():
        trace = clean_text(f" {place}\n{''.join(traceback.format_exception(error))}")
        console.print(Text.assemble(("broken", "red"), trace), soft_wrap=True)


def _find(catalogue: Catalogue, name: str) -> Toolchain:
    """Return a toolchain by its name, also a server's, which makes no winners.

    Raises:
        HoneError: ``toolchain-unknown``.
    """
    return SERVERS.get(name) or catalogue.find_toolchain(name)


def find_missing(catalogue: Catalogue, toolchain: Toolchain) -> str | None:
    """Return what this machine lacks for every adaptor of a toolchain, as a reason; None if one can be used."""
    own, host = [one for one in catalogue.adaptors.values() if one.toolchain.name == toolchain.name], read_host()
    reasons = [one.find_missing(host) for one in own]
    return reasons[0] if reasons and all(reasons) else None


def _find_unlocked(toolchain: Toolchain) -> str | None:
    """Return why no environment can be built for a toolchain on any machine; None if one can, or none is needed."""
    if toolchain.lockable or isinstance(EnvironmentStore().ensure(toolchain, build=False), Environment):
        return None
    return "works only in an interpreter that a recipe names: package indexes lack what it needs"


def _describe_environment(found: Environment | Failed) -> str:
    if not isinstance(found, Environment):
        return f"none: {found.reason}{f'; the log is {found.log}' if found.log else ''}"
    if found.named:
        return f"the interpreter {found.python}"
    return "its own, built" if found.own else "this interpreter"
