"""Implements ``kedro hone toolchains --capabilities``: a toolchain's capabilities, and which of them apply here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import Catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.text import clean_line, clean_text
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.recipe.capabilities import CAPABILITIES, explain_invalid, read_takes, require_known_adaptors


def print_capabilities(catalogue: Catalogue, name: str) -> None:
    """Print for each adaptor of a toolchain whether this machine runs it, and then its ``capabilities.yml``.

    Raises:
        HoneError: ``toolchain-unknown``, or ``capabilities-invalid``.
    """
    host, toolchain = read_host(), catalogue.find_toolchain(name)
    click.echo(f"# this machine: {host.cores} cores, {host.instructions}, GPU: {host.gpu or 'none'}")
    adaptors = [one for one in catalogue.adaptors.values() if one.toolchain.name == name]
    require_known_adaptors(toolchain, [one.name for one in adaptors])
    for adaptor in adaptors:
        said = "; ".join(_describe(adaptor, host)) or "runs here"
        click.echo(clean_line(f"# {adaptor.name}: {said}"))
    path = toolchain.folder / CAPABILITIES
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else "nothing is recorded about this toolchain\n"
    except UnicodeDecodeError as error:
        raise explain_invalid(name, path, error) from error
    click.echo("\n".join(map(clean_text, text.split("\n"))))


def _describe(adaptor: Adaptor, host: Host) -> Iterator[str]:
    """Yield what this machine lacks."""
    if missing := adaptor.find_missing(host):
        yield missing
        return
    takes = read_takes(adaptor, find_versions=partial(_find_versions, adaptor.toolchain))
    if lacks := [one.where for one in takes if one.where and not host.can(one.where)]:
        yield f"needs a CPU with {lacks[0]}"


def _find_versions(toolchain: Toolchain) -> dict[str, str]:
    found = EnvironmentStore().ensure(toolchain, build=False)
    return found.versions if isinstance(found, Environment) else {}
