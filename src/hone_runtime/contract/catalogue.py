"""The installed toolchains and adaptors: built-in ones, those of other packages, and those of the project."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.plugins import Plugins, check_kind, list_offers, list_parts, load
from hone_runtime.contract.toolchain import Licence, Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.text import suggest
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format
from hone_runtime.values.outcome import Candidate

ENTRY_POINTS: Final = "kedro_hone.adaptors"
"""The entry-point group of other distributions; each entry point names a module with the same two names."""

_Named = TypeVar("_Named", Adaptor, Toolchain)
_Registered = TypeVar("_Registered", bound=Adaptor | Toolchain | Callable[[], Adaptor])


def _identify(value: Adaptor | Toolchain) -> list[object]:
    """Return all fields; functions and classes by name, since a reloaded module defines new objects."""
    values = [getattr(value, field.name) for field in fields(value)]
    return [(one.__module__, one.__qualname__) if hasattr(one, "__qualname__") else one for one in values]


_PLUGINS: Final[Plugins[Adaptor | Toolchain]] = Plugins(
    slug="adaptor-name-taken",
    clash="Two toolchains or adaptors are named {name!r}.",
    locate=lambda value: str((value.toolchain if isinstance(value, Adaptor) else value).folder),
    identify=_identify,
)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All installed toolchains and adaptors.

    Attributes:
        adaptors: By name; built-in ones first, then those of other packages, then the project's own.
        toolchains: By name, in the same order.
        broken: Exceptions from modules that could not be imported, by their origin.
    """

    adaptors: Mapping[str, Adaptor]
    toolchains: Mapping[str, Toolchain]
    broken: Mapping[str, BaseException]

    def find_adaptor(self, name: str) -> Adaptor:
        """Return an adaptor by its name.

        Raises:
            HoneError: ``adaptor-unknown``, with the nearest name.
        """
        return self._find("adaptor", name, self.adaptors)

    def find_toolchain(self, name: str) -> Toolchain:
        """Return a toolchain by its name.

        Raises:
            HoneError: ``toolchain-unknown``, with the nearest name.
        """
        return self._find("toolchain", name, self.toolchains)

    def is_native(self, form: Format) -> bool:
        """Return whether opening a model of a format runs code of its author, in any toolchain."""
        return any(form in toolchain.native for toolchain in self.toolchains.values())

    def is_code(self, form: Format, runtime: str | None) -> bool:
        """Return whether a winner of a format is code for the process that loads it with its runtime.

        If the runtime is not installed, it counts as code, since nothing states that it is data.
        """
        toolchain = self.toolchains.get(str(runtime))
        return toolchain is None or form not in toolchain.data

    def find_restricted(self, candidate: Candidate) -> Toolchain | None:
        """Return the first toolchain of a candidate's route, or its runtime, whose licence is for evaluation only.

        Raises:
            HoneError: ``toolchain-unknown``: one of them is no longer installed.
        """
        names = [adaptor.partition(".")[0] for adaptor in candidate.route]
        if isinstance(candidate.outcome, Artifact) and candidate.outcome.runtime is not None:
            names.append(candidate.outcome.runtime)
        toolchains = (self.find_toolchain(name) for name in dict.fromkeys(names))
        return next((toolchain for toolchain in toolchains if toolchain.licence is Licence.EVALUATION), None)

    def _find(self, what: str, name: str, known: Mapping[str, _Named]) -> _Named:
        if name in known:
            return known[name]
        why = f"There are: {', '.join(sorted(known)) or 'none'}."
        if self.broken:
            why += f" Could not be imported: {', '.join(self.broken)}."
        hint = f"{suggest(name, known)}`kedro-hone toolchains` lists all, and what could not be imported."
        raise HoneError(f"{what}-unknown", f"There is no {what} {name!r}.", why=why, hint=hint)


def register(first: _Registered, /, *adaptors: Adaptor) -> _Registered:
    """Add adaptors of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    As a call, ``register(adaptor, …)`` or ``register(toolchain, adaptor, …)``. Name the toolchain only if it has no
    adaptor, since each adaptor includes its toolchain. As a decorator, on a function that returns an adaptor::

        @register
        def make_half() -> Adaptor:
            return Adaptor(name="onnxruntime.half", …)

    Registering the same value again changes nothing, so settings may be imported twice. Returns its first argument.

    Raises:
        HoneError: ``adaptor-name-taken``. Conflicts with a built-in adaptor, or with one of another package, are
            detected when the adaptors are first looked up.
        TypeError: An argument is neither a toolchain nor an adaptor.
    """
    if isinstance(first, Toolchain):
        _PLUGINS.register(first, *_check(adaptors, first))
    else:
        values = _check((first if isinstance(first, Adaptor) else first(), *adaptors))
        _PLUGINS.register(*(adaptor.toolchain for adaptor in values), *values)
    return first


forget_registrations = _PLUGINS.own.clear
"""Removes everything that ``register`` added, for tests and for reloading a project in a notebook."""


@lru_cache(maxsize=1)
def list_builtin() -> Mapping[str, str]:
    """Return the built-in toolchains: name to the module that exports ``TOOLCHAIN`` and ``ADAPTORS``.

    A folder of the package of adaptors is a toolchain. None of them is imported.
    """
    package = list_parts()["adaptors"].load()
    (folder,) = package.__path__
    modules = sorted(Path(folder).glob("*/adaptor.py"))
    return {file.parent.name: f"{package.__name__}.{file.parent.name}.adaptor" for file in modules}


def read_catalogue(builtin: Mapping[str, str] | None = None) -> Catalogue:
    """Import and return all adaptors and toolchains: built-in, of other packages, and the project's own.

    ``builtin`` replaces the built-in toolchains.

    Raises:
        HoneError: ``adaptor-name-taken``: two places offer the same name.
    """
    builtin = list_builtin() if builtin is None else builtin
    found, broken = load(list_offers(ENTRY_POINTS, builtin), _read_module)
    plugins = [value for value, _ in _PLUGINS.merge((one, offer) for module, offer in found for one in module).values()]
    return Catalogue(
        adaptors={plugin.name: plugin for plugin in plugins if isinstance(plugin, Adaptor)},
        toolchains={plugin.name: plugin for plugin in plugins if isinstance(plugin, Toolchain)},
        broken=broken,
    )


def find_installed(name: str) -> Toolchain | None:
    """Return an installed toolchain, or None; if it is built in, only its module is imported.

    Raises:
        HoneError: ``adaptor-name-taken``.
    """
    if module := list_builtin().get(name):  # a single import, so that a serving process starts fast
        return check_kind(importlib.import_module(module).TOOLCHAIN, Toolchain)
    return read_catalogue().toolchains.get(name)


def find_used(toolchain: Toolchain) -> tuple[Path, ...]:
    """Return the worker files of the other toolchains that a toolchain's worker imports, with what these import.

    Raises:
        HoneError: ``toolchain-unknown``: one of them is not installed.
    """
    found: dict[str, Path] = {}
    pending = [*toolchain.uses]
    while pending:
        name = pending.pop(0)
        if name not in found:
            used = find_installed(name) or read_catalogue().find_toolchain(name)
            found[name] = used.worker
            pending += used.uses
    return tuple(found.values())


def _read_module(module: Any) -> tuple[Toolchain | Adaptor, ...]:
    toolchain = check_kind(module.TOOLCHAIN, Toolchain)
    return toolchain, *_check(module.ADAPTORS, toolchain)


def _check(values: Iterable[Any], toolchain: Toolchain | None = None) -> tuple[Adaptor, ...]:
    adaptors = tuple(check_kind(value, Adaptor) for value in values)
    for adaptor in adaptors:
        if toolchain and adaptor.toolchain.name != toolchain.name:
            raise TypeError(f"the adaptor {adaptor.name} belongs to {adaptor.toolchain.name}, not to {toolchain.name}")
    return adaptors
