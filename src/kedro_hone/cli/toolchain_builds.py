"""Implements ``kedro hone toolchains build``: builds environments one after the other, and shows their sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.text import clean_line
from hone_runtime.values.outcome import Failed
from kedro_hone.core.environments.environment import Environment, explain_unbuildable
from kedro_hone.core.environments.store import EnvironmentStore, measure_size


def build_all(toolchains: Sequence[Toolchain], *, wheels: Path | None = None) -> None:
    """Build the environments that are missing, and print a line for each; one that fails does not stop the others.

    ``wheels`` is a folder to install from, as in ``EnvironmentStore``.

    Raises:
        HoneError: ``toolchain-unbuildable``, with all failures; or the error of a full or read-only disk.
    """
    store, failed = EnvironmentStore(wheels=wheels), list[Failed]()
    for number, toolchain in enumerate(toolchains, 1):
        started = time.monotonic()
        built = _watch(store, toolchain, place=f"{number}/{len(toolchains)}")
        if isinstance(built, Failed):
            failed.append(built)
            said = f"failed            {built.reason}"
        elif built.own:
            size = f"{measure_size(store.locate(toolchain)) / 2**20:.0f} MiB"
            said = f"built             {size:>9s} {time.monotonic() - started:5.0f} s"
        else:
            said = "this interpreter"
        click.echo(clean_line(f"{toolchain.name:18s} {said}"))
    if failed:
        raise explain_unbuildable(failed)


def build_one(store: EnvironmentStore, toolchain: Toolchain) -> Environment:
    """Return the environment of a toolchain, built first when there is none.

    Raises:
        HoneError: ``toolchain-unbuildable``.
    """
    built = store.ensure(toolchain)
    if isinstance(built, Failed):
        raise explain_unbuildable([built])
    return built


def _watch(store: EnvironmentStore, toolchain: Toolchain, *, place: str) -> Environment | Failed:
    """Return a toolchain's environment; while it is built, a terminal shows its size and the elapsed time."""
    console = Console(stderr=True)
    found = store.ensure(toolchain, build=False)
    if isinstance(found, Environment) or not console.is_terminal:
        return found if isinstance(found, Environment) else store.ensure(toolchain)
    started = time.monotonic()

    def show() -> Text:
        size, seconds = measure_size(store.locate(toolchain)) / 2**20, time.monotonic() - started
        return Text(clean_line(f"{place} building {toolchain.name}: {size:.0f} MiB, {seconds:.0f} s"))

    with Live(get_renderable=show, console=console, refresh_per_second=1, transient=True):
        return store.ensure(toolchain)
