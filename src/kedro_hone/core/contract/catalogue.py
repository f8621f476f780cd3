"""Which toolchains and adaptors are installed. The built-in ones are in a table; others register."""

from __future__ import annotations

import difflib
import importlib
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, overload

from kedro_hone.core.contract.adaptor import Adaptor
from kedro_hone.core.contract.entry_points import list_entry_points, merge
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.errors import HoneError

BUILTIN_TOOLCHAINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: f"kedro_hone.adaptors.{name}.adaptor"
        for name in ("onnxruntime", "openvino", "pytorch", "iree", "deepsparse")
    }
)
"""Our toolchains: name to the module that exports ``TOOLCHAIN`` and ``ADAPTORS``."""

ENTRY_POINTS: Final = "kedro_hone.adaptors"
"""The entry-point group of other distributions; each entry point names a module with the same two names."""

_TAKEN: Final = "adaptor-name-taken"

_Named = TypeVar("_Named", Adaptor, Toolchain)


class _Offer(NamedTuple):
    """A toolchain and adaptors of it (all, or some more) from one place, which ``origin`` names for a person."""

    origin: str
    toolchain: Toolchain
    adaptors: tuple[Adaptor, ...]


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All that is installed.

    Attributes:
        adaptors: By name; ours first, then those of other packages, then the project's own.
        toolchains: By name, in the same order.
        broken: Modules that could not be imported: name to traceback.
    """

    adaptors: Mapping[str, Adaptor]
    toolchains: Mapping[str, Toolchain]
    broken: Mapping[str, str]

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

    def _find(self, what: str, name: str, known: Mapping[str, _Named]) -> _Named:
        if name in known:
            return known[name]
        why = f"There are: {', '.join(sorted(known)) or 'none'}."
        if self.broken:
            why += f" Could not be imported: {', '.join(self.broken)}."
        nearest = difflib.get_close_matches(name, sorted(known), n=1)
        hint = "`kedro hone toolchains` lists all there are, and what could not be imported."
        hint = f"Did you mean {nearest[0]!r}? {hint}" if nearest else hint
        raise HoneError(f"{what}-unknown", f"There is no {what} {name!r}.", why=why, hint=hint)


# What the user's own project registers from its settings.py, as they are imported. It is global because an import has
# nowhere else to leave it: Kedro imports the settings before there is any object of ours to hand it to.
_REGISTERED: list[_Offer] = []


@overload
def register(first: Callable[[], Adaptor], /) -> Callable[[], Adaptor]: ...


@overload
def register(first: Toolchain | Adaptor, /, *adaptors: Adaptor) -> None: ...


def register(first: Toolchain | Adaptor | Callable[[], Adaptor], /, *adaptors: Adaptor) -> Callable[[], Adaptor] | None:
    """Add adaptors of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    As a call, ``register(adaptor, …)`` or ``register(toolchain, adaptor, …)``; the toolchain has to be named only when
    it has no adaptor, since it is part of each. As a decorator, on a function that returns an adaptor; the function is
    returned unchanged::

        @register
        def make_half() -> Adaptor:
            return Adaptor(name="onnxruntime.half", …)

    Registering the same again changes nothing, so settings may be imported twice.

    Raises:
        HoneError: ``adaptor-name-taken``. A name that is taken by a built-in adaptor or by another package is found
            when the adaptors are first looked up.
        TypeError: Something is neither a toolchain nor an adaptor.
    """
    if isinstance(first, Toolchain):
        offers = [_Offer("register()", first, _check(adaptors, first))]
    else:
        values = _check((first if isinstance(first, Adaptor) else first(), *adaptors))
        offers = [_Offer("register()", value.toolchain, (value,)) for value in values]
    _gather((), (*_REGISTERED, *offers), broken={})
    _REGISTERED.extend(offer for offer in offers if offer not in _REGISTERED)
    return None if isinstance(first, Toolchain | Adaptor) else first


def forget_registrations() -> None:
    """Drop what ``register`` added, for tests and for reloading a project in a notebook."""
    _REGISTERED.clear()


def read_catalogue(builtin: Mapping[str, str] = BUILTIN_TOOLCHAINS) -> Catalogue:
    """Return all that is installed: ours, other packages' and the project's own. Imports happen here, not before.

    Raises:
        HoneError: ``adaptor-name-taken``, when two places offer one name.
    """
    sources: list[tuple[str, str, Callable[[], Any]]] = [
        *((name, "built in", partial(importlib.import_module, module)) for name, module in builtin.items()),
        *((f"{point.name} ({origin})", origin, point.load) for point, origin in list_entry_points(ENTRY_POINTS)),
    ]
    offers: list[_Offer] = []
    broken: dict[str, str] = {}
    for name, origin, load in sources:
        try:
            offers.append(_read_module(load(), origin))
        except (Exception, SystemExit):  # noqa: BLE001  (a third-party module may raise anything; it is shown, not lost)
            broken[name] = traceback.format_exc()
    return _gather(offers, _REGISTERED, broken=broken)


def _read_module(module: Any, origin: str) -> _Offer:
    toolchain = module.TOOLCHAIN
    if not isinstance(toolchain, Toolchain):
        raise TypeError(f"{module.__name__}.TOOLCHAIN is a {type(toolchain).__name__}, not a Toolchain")
    return _Offer(origin, toolchain, _check(module.ADAPTORS, toolchain))


def _check(values: Iterable[Any], toolchain: Toolchain | None = None) -> tuple[Adaptor, ...]:
    adaptors = tuple(values)
    for value in adaptors:
        if not isinstance(value, Adaptor):
            raise TypeError(f"{value!r} is a {type(value).__name__}, not an Adaptor")
        if toolchain and value.toolchain.name != toolchain.name:
            raise TypeError(f"the adaptor {value.name} belongs to {value.toolchain.name}, not to {toolchain.name}")
    return adaptors


def _gather(offers: Iterable[_Offer], registered: Iterable[_Offer], *, broken: Mapping[str, str]) -> Catalogue:
    adaptors, own_adaptors = _list_adaptors(offers), _list_adaptors(registered)
    toolchains, own_toolchains = _list_toolchains(offers), _list_toolchains(registered)
    return Catalogue(
        adaptors=MappingProxyType(merge(adaptors, own_adaptors, slug=_TAKEN, noun="adaptor", identify=_identify)),
        toolchains=MappingProxyType(
            merge(toolchains, own_toolchains, slug=_TAKEN, noun="toolchain", identify=_identify)
        ),
        broken=MappingProxyType(broken),
    )


def _list_adaptors(offers: Iterable[_Offer]) -> list[tuple[Adaptor, str]]:
    return [(one, f"{offer.origin} ({one.toolchain.folder})") for offer in offers for one in offer.adaptors]


def _list_toolchains(offers: Iterable[_Offer]) -> list[tuple[Toolchain, str]]:
    return [(offer.toolchain, f"{offer.origin} ({offer.toolchain.folder})") for offer in offers]


def _identify(value: Adaptor | Toolchain) -> list[object]:
    """All fields; functions and classes by name, since a reloaded module has new ones."""
    values = [getattr(value, field.name) for field in fields(value)]
    return [(one.__module__, one.__qualname__) if hasattr(one, "__qualname__") else one for one in values]
