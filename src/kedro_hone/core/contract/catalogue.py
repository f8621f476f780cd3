"""Which toolchains and adaptors are installed. The built-in ones are in a table; others register."""

from __future__ import annotations

import difflib
import importlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

from kedro_hone.core.contract.adaptor import Adaptor
from kedro_hone.core.contract.entry_points import list_entry_points
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.errors import HoneError

BUILTIN_TOOLCHAINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "onnxruntime": "kedro_hone.adaptors.onnxruntime.adaptor",
        "openvino": "kedro_hone.adaptors.openvino.adaptor",
        "pytorch": "kedro_hone.adaptors.pytorch.adaptor",
        "iree": "kedro_hone.adaptors.iree.adaptor",
        "deepsparse": "kedro_hone.adaptors.deepsparse.adaptor",
    }
)
"""Our toolchains: name to the module that exports ``TOOLCHAIN`` and ``ADAPTORS``."""

ENTRY_POINTS: Final = "kedro_hone.adaptors"
"""The entry-point group of other distributions; each entry point names a module with the same two names."""

_Named = TypeVar("_Named", Adaptor, Toolchain)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A toolchain and adaptors of it, from one place.

    Attributes:
        origin: Where they come from, for a person: ``built in``, ``the package NAME`` or ``register()``.
        toolchain: The toolchain.
        adaptors: Its adaptors, or some more of them.
    """

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
        if name not in self.adaptors:
            raise self._explain_unknown("adaptor", name, known=self.adaptors)
        return self.adaptors[name]

    def find_toolchain(self, name: str) -> Toolchain:
        """Return a toolchain by its name.

        Raises:
            HoneError: ``toolchain-unknown``, with the nearest name.
        """
        if name not in self.toolchains:
            raise self._explain_unknown("toolchain", name, known=self.toolchains)
        return self.toolchains[name]

    def _explain_unknown(self, what: str, name: str, *, known: Iterable[str]) -> HoneError:
        names = sorted(known)
        why = f"There are: {', '.join(names) or 'none'}."
        if self.broken:
            why += f" Could not be imported: {', '.join(self.broken)}."
        nearest = difflib.get_close_matches(name, names, n=1)
        listing = "`kedro hone toolchains` lists all there are, and what could not be imported."
        hint = f"Did you mean {nearest[0]!r}? {listing}" if nearest else listing
        return HoneError(f"{what}-unknown", f"There is no {what} {name!r}.", why=why, hint=hint)


# What the user's own project registers from its settings.py, as they are imported. It is global because an import has
# nowhere else to leave it: Kedro imports the settings before there is any object of ours to hand it to.
_REGISTERED: list[Offer] = []


@overload
def register(first: Callable[[], Adaptor], /) -> Callable[[], Adaptor]: ...


@overload
def register(first: Toolchain | Adaptor, /, *adaptors: Adaptor) -> None: ...


def register(first: Toolchain | Adaptor | Callable[[], Adaptor], /, *adaptors: Adaptor) -> Callable[[], Adaptor] | None:
    """Add adaptors of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    As a call, ``register(adaptor, …)`` or ``register(toolchain, adaptor, …)``; the toolchain has to be named only when
    it has no adaptor, since it is part of each. As a decorator, on a function that returns an adaptor::

        @register
        def make_half() -> Adaptor:
            return Adaptor(name="onnxruntime.half", …)

    Registering the same again changes nothing, so settings may be imported twice.

    Args:
        first: A toolchain, an adaptor, or a function that returns an adaptor.
        *adaptors: More adaptors.

    Returns:
        As a decorator, the function, unchanged.

    Raises:
        HoneError: ``adaptor-name-taken``. A name that is taken by a built-in adaptor or by another package is found
            when the adaptors are first looked up.
        TypeError: Something is neither a toolchain nor an adaptor.
    """
    if isinstance(first, Toolchain):
        offers = [Offer(origin="register()", toolchain=first, adaptors=_check_adaptors(first, adaptors))]
        made = None
    else:
        made = None if isinstance(first, Adaptor) else first
        values = (first if isinstance(first, Adaptor) else first(), *adaptors)
        offers = [
            Offer(origin="register()", toolchain=value.toolchain, adaptors=(value,)) for value in _check_types(values)
        ]
    _merge((*_REGISTERED, *offers), broken={})
    _REGISTERED.extend(offer for offer in offers if offer not in _REGISTERED)
    return made


def forget_registrations() -> None:
    """Drop what ``register`` added, for tests and for reloading a project in a notebook."""
    _REGISTERED.clear()


def read_catalogue(builtin: Mapping[str, str] = BUILTIN_TOOLCHAINS) -> Catalogue:
    """Return all that is installed: ours, other packages' and the project's own. Imports happen here, not before.

    Args:
        builtin: Our toolchains; the table above unless a test says otherwise.

    Returns:
        The catalogue. What cannot be imported is in its ``broken``.

    Raises:
        HoneError: ``adaptor-name-taken``, when two places offer one name.
    """
    offers: list[Offer] = []
    broken: dict[str, str] = {}
    for name, origin, load in _list_sources(builtin):
        try:
            offers.append(_read_module(load(), origin))
        except (Exception, SystemExit):  # noqa: BLE001  (a third-party module may raise anything; it is shown, not lost)
            broken[name] = traceback.format_exc()
    return _merge((*offers, *_REGISTERED), broken=broken)


def find_adaptors() -> Mapping[str, Adaptor]:
    """Return every adaptor by its name."""
    return read_catalogue().adaptors


def find_toolchains() -> Mapping[str, Toolchain]:
    """Return every toolchain by its name."""
    return read_catalogue().toolchains


def _list_sources(builtin: Mapping[str, str]) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the name, the origin and the loader of every module that offers something."""
    for name, module in builtin.items():
        yield name, "built in", partial(importlib.import_module, module)
    for point, origin in list_entry_points(ENTRY_POINTS):
        yield f"{point.name} ({origin})", origin, point.load


def _read_module(module: Any, origin: str) -> Offer:
    toolchain = module.TOOLCHAIN
    if not isinstance(toolchain, Toolchain):
        raise TypeError(f"{module.__name__}.TOOLCHAIN is a {type(toolchain).__name__}, not a Toolchain")
    return Offer(origin=origin, toolchain=toolchain, adaptors=_check_adaptors(toolchain, module.ADAPTORS))


def _check_types(values: Iterable[Any]) -> tuple[Adaptor, ...]:
    adaptors = tuple(values)
    for value in adaptors:
        if not isinstance(value, Adaptor):
            raise TypeError(f"{value!r} is a {type(value).__name__}, not an Adaptor")
    return adaptors


def _check_adaptors(toolchain: Toolchain, values: Iterable[Any]) -> tuple[Adaptor, ...]:
    adaptors = _check_types(values)
    for adaptor in adaptors:
        if adaptor.toolchain.name != toolchain.name:
            raise TypeError(f"the adaptor {adaptor.name} belongs to {adaptor.toolchain.name}, not to {toolchain.name}")
    return adaptors


def _merge(offers: Iterable[Offer], *, broken: Mapping[str, str]) -> Catalogue:
    adaptors: dict[str, tuple[Adaptor, str]] = {}
    toolchains: dict[str, tuple[Toolchain, str]] = {}
    for offer in offers:
        _put(toolchains, offer.toolchain, offer.origin)
        for adaptor in offer.adaptors:
            _put(adaptors, adaptor, offer.origin)
    return Catalogue(
        adaptors=MappingProxyType({name: adaptor for name, (adaptor, _) in adaptors.items()}),
        toolchains=MappingProxyType({name: toolchain for name, (toolchain, _) in toolchains.items()}),
        broken=MappingProxyType(dict(broken)),
    )


def _put(table: dict[str, tuple[_Named, str]], value: _Named, origin: str) -> None:
    """Enter a value under its name; the same value twice is no collision, another one is."""
    if value.name not in table:
        table[value.name] = (value, origin)
        return
    other, first = table[value.name]
    if not _is_same(value, other):
        what = type(value).__name__.lower()
        raise HoneError(
            "adaptor-name-taken",
            f"Two {what}s are named {value.name!r}.",
            why=f"One comes from {first} ({_locate(other)}), another from {origin} ({_locate(value)}).",
            hint="Rename one of them, or uninstall the package that you do not need.",
        )
    # The newer one: after a notebook has reloaded the project, its functions are the ones that were edited.
    table[value.name] = (value, first)


def _is_same(one: Adaptor | Toolchain, other: Adaptor | Toolchain) -> bool:
    """Compare field by field; functions and classes by name, since a reloaded module has new ones."""
    return type(one) is type(other) and all(
        _identify(getattr(one, field.name)) == _identify(getattr(other, field.name)) for field in fields(one)
    )


def _identify(value: Any) -> Any:
    return (value.__module__, value.__qualname__) if hasattr(value, "__qualname__") else value


def _locate(value: Adaptor | Toolchain) -> str:
    return str((value.toolchain if isinstance(value, Adaptor) else value).folder)
