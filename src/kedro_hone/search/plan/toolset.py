"""The environment of a winner's search: the processor, and the versions of the toolchains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.digest import digest_file, digest_json
from kedro_hone.core.environments.environment import Environment
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe

_SHOWN = 12
"""The number of hexadecimal digits of a digest in a tag: few, since people read them too."""


class Machine(Protocol):
    """The properties that distinguish machines on which different winners may be fastest."""

    @property
    def cpu(self) -> str:
        """The processor's name."""

    @property
    def flags(self) -> Iterable[str]:
        """The processor's instruction sets."""

    @property
    def gpu(self) -> str | None:
        """The GPU's name."""


def format_machine_tag(machine: Machine) -> str:
    """Return the name of a kind of machine for a tag: the processor with its instruction sets, and the GPU."""
    return _shorten(digest_json([machine.cpu, sorted(machine.flags), machine.gpu]))


def format_toolset(recipe: Recipe) -> str:
    """Return the name of a recipe's toolchains with their versions, for a tag: ``onnxruntime=5e84f494 …``.

    Raises:
        HoneError: As ``make_plan``.
    """
    catalogue = read_catalogue()
    names = sorted({catalogue.adaptors[name].toolchain.name for name in make_plan(recipe).options})
    return " ".join(f"{name}={_find_version(name, recipe)}" for name in names)


def _find_version(name: str, recipe: Recipe) -> str:
    """Return the digest of a toolchain's versions: of its lock, or of this interpreter's versions if it is used."""
    toolchain = read_catalogue().find_toolchain(name)
    found = find_environment(recipe, toolchain, build=False)
    if isinstance(found, Environment):
        return _shorten(found.lock_digest)
    return _shorten(digest_file(toolchain.lock)) if toolchain.lock.exists() else "none"


def _shorten(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_SHOWN]
