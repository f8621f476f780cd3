"""Plug-ins of every kind: what is built in, what packages offer by entry point, and what the project registers."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from hone_runtime.errors import HoneError

BUILT_IN: Final = "built in"


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Plugin = TypeVar("_Plugin", bound=_Named)
_Kind = TypeVar("_Kind")


class Offer(NamedTuple):
    """A plug-in that may be imported; its text is where it is.

    Attributes:
        target: ``package.module`` or ``package.module:NAME``; of a registered one where it is made.
        origin: Where it comes from, for a person: ``built in``, ``the package NAME`` or ``the project``.
    """

    name: str
    target: str
    origin: str

    def __str__(self) -> str:
        return f"{self.origin} ({self.target})"

    def load(self) -> Any:
        """Import it; what the module raises is raised."""
        return metadata.EntryPoint(self.name, self.target, "").load()


@dataclass(frozen=True, kw_only=True)
class Plugins(Generic[_Plugin]):
    """The plug-ins of one kind: what is offered, and what the user's project registers.

    There is one such value for each kind, in a module: Kedro imports the project's ``settings.py`` before there is any
    object of ours that it could be handed.

    Attributes:
        slug: Of the error for a name that is taken.
        clash: What that error says, with ``{name}``.
        locate: Returns where a registered one is made, for a person.
        identify: Returns what stays equal when the project's modules are reloaded; ``locate`` where it is None.
        own: What is registered, by name.
    """

    slug: str
    clash: str
    locate: Callable[[_Plugin], str]
    identify: Callable[[_Plugin], object] | None = None
    own: dict[str, _Plugin] = field(default_factory=dict)

    def register(self, *values: _Plugin) -> None:
        """Add all of these or none; one that was reloaded replaces itself, as its functions may have been edited.

        Raises:
            HoneError: Another one that is registered has its name.
        """
        own, identify = dict(self.own), self.identify or self.locate
        for value in values:
            known = own.get(value.name, value)
            if identify(known) != identify(value):
                raise self._explain_taken(self._offer(known), self._offer(value))
            own[value.name] = value
        self.own.update(own)

    def merge(self, offers: Iterable[tuple[_Plugin, Offer]]) -> dict[str, tuple[_Plugin, Offer]]:
        """Return what is offered, then what is registered, by name.

        Raises:
            HoneError: Two that are not equal have one name.
        """
        found: dict[str, tuple[_Plugin, Offer]] = {}
        for value, offer in (*offers, *((value, self._offer(value)) for value in self.own.values())):
            known, first = found.setdefault(value.name, (value, offer))
            if known is not value and known != value:
                raise self._explain_taken(first, offer)
        return found

    def _offer(self, value: _Plugin) -> Offer:
        return Offer(value.name, self.locate(value), "the project")

    def _explain_taken(self, first: Offer, other: Offer) -> HoneError:
        why = f"One comes from {first}, another from {other}."
        hint = "Rename one of them, or uninstall the package that you do not need."
        return HoneError(self.slug, self.clash.format(name=other.name), why=why, hint=hint)


def list_offers(group: str, builtin: Mapping[str, str]) -> list[Offer]:
    """Return what is built in (name to target), then the entry points of a group; nothing is imported."""
    folders = (Path(place or ".") for place in sys.path)
    # An installation changes one of the folders of packages.
    places = tuple((str(one), one.stat().st_mtime_ns) for one in folders if one.is_dir())
    return [*(Offer(name, target, BUILT_IN) for name, target in builtin.items()), *_list_installed(places, group)]


def list_modules(package: str, attribute: str) -> dict[str, str]:
    """Return the target of each module in a package of ours: a new file is a new plug-in."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return {module.name: f"{package}.{module.name}:{attribute}" for module in found}


def load(
    offers: Iterable[Offer], read: Callable[[Any], _Kind]
) -> tuple[list[tuple[_Kind, Offer]], dict[str, BaseException]]:
    """Import what is offered, and return what ``read`` makes of it, and the text of offers with what they raised.

    A stranger's module may raise anything, or exit: it harms no other. Only Ctrl-C is raised.
    """
    found: list[tuple[_Kind, Offer]] = []
    broken: dict[str, BaseException] = {}
    for offer in offers:
        try:
            found.append((read(offer.load()), offer))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - it is shown, not lost; pytest.skip raises no Exception
            broken[str(offer)] = error
    return found, broken


@contextmanager
def guard(slug: str, what: str, *, culprit: str, hint: str, ours: bool = False) -> Iterator[None]:
    """Turn what a stranger's code raises, and its exit, into an error for people; a ``HoneError`` and Ctrl-C pass.

    The error says that the ``culprit`` failed, and how. What code of ``ours`` raises is a bug, and passes too.
    """
    try:
        yield
    except (HoneError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if ours:
            raise
        raise HoneError(slug, what, why=f"{culprit} failed: {describe_exception(error)}", hint=hint) from error


def check_kind(value: Any, kind: type[_Kind]) -> _Kind:
    """Return a value that must be of a type; ``TypeError`` where it is not."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.80} is of the type {type(value).__name__}, not {kind.__name__}")
    return value


def describe_exception(error: BaseException) -> str:
    """Return ``ValueError: what it says``."""
    return f"{type(error).__name__}: {error}"


def name_function(function: Callable[..., Any]) -> str:
    """Return where a function is defined, ``module.name``; a callable object is named by its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


@lru_cache(maxsize=8)
def _list_installed(places: tuple[tuple[str, int], ...], group: str) -> tuple[Offer, ...]:
    """Select what packages offer in a group among all of their entry points: a search asks hundreds of times."""
    points = _read_entry_points(places).select(group=group)
    return tuple(
        Offer(one.name, one.value, f"the package {one.dist.name if one.dist else 'unknown'}") for one in points
    )


@lru_cache(maxsize=1)
def _read_entry_points(_: tuple[tuple[str, int], ...]) -> metadata.EntryPoints:
    """Read the files of all distributions: tens of milliseconds, and a run asks for several groups, and again."""
    # Before Python 3.12 it is of another type, which selects as well.
    return cast("metadata.EntryPoints", metadata.entry_points())
