"""Plug-ins of every kind: built-in ones, those of packages (by entry point), and those that the project registers."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from hone_runtime.errors import HoneError

BUILT_IN: Final = "built in"

_DISTRIBUTION: Final = "kedro-hone"
"""The distribution that installs ``hone_runtime`` and everything built in."""

_PARTS: Final = "hone_runtime.parts"
"""The entry-point group of that distribution with the parts that are above this package: it may not import them."""


_START: Final = Path.cwd()
"""The folder in which the process began: Python's option ``-m`` puts it on the path."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Plugin = TypeVar("_Plugin", bound=_Named)
_Kind = TypeVar("_Kind")


class Offer(NamedTuple):
    """A plug-in that can be imported. Its text form is its location.

    Attributes:
        target: ``package.module`` or ``package.module:NAME``; for a registered plug-in the place of its definition.
        origin: Where it comes from, for people: ``built in``, ``the package NAME`` or ``the project``.
    """

    name: str
    target: str
    origin: str

    def __str__(self) -> str:
        return f"{self.origin} ({self.target})"

    def load(self) -> Any:
        """Import it; exceptions of the module are passed on."""
        return metadata.EntryPoint(self.name, self.target, "").load()


@dataclass(frozen=True, kw_only=True)
class Plugins(Generic[_Plugin]):
    """The plug-ins of one kind: those offered, and those that the user's project registers.

    There is one such value for each kind, at module level: Kedro imports the project's ``settings.py`` before any
    object of kedro-hone exists that could be passed to it.

    Attributes:
        slug: The slug of the error for a name that is taken.
        clash: The message of that error, with ``{name}``.
        locate: Returns where a registered plug-in is defined, for people.
        identify: Returns a value that stays equal when the project's modules are reloaded; ``locate`` if None.
        own: The registered plug-ins, by name.
    """

    slug: str
    clash: str
    locate: Callable[[_Plugin], str]
    identify: Callable[[_Plugin], object] | None = None
    own: dict[str, _Plugin] = field(default_factory=dict)

    def register(self, *values: _Plugin) -> None:
        """Add all of these or none. A reloaded plug-in replaces itself, since its functions may have been edited.

        Raises:
            HoneError: Another registered plug-in has the same name.
        """
        own, identify = dict(self.own), self.identify or self.locate
        for value in values:
            known = own.get(value.name, value)
            if identify(known) != identify(value):
                raise self._explain_taken(value.name, self._offer(known), self._offer(value))
            own[value.name] = value
        self.own.update(own)

    def merge(self, offers: Iterable[tuple[_Plugin, Offer]]) -> dict[str, tuple[_Plugin, Offer]]:
        """Return the offered plug-ins, then the registered ones, by name.

        Raises:
            HoneError: Two plug-ins that are not equal have the same name.
        """
        found: dict[str, tuple[_Plugin, Offer]] = {}
        for value, offer in (*offers, *((value, self._offer(value)) for value in self.own.values())):
            known, first = found.setdefault(value.name, (value, offer))
            if known is not value and known != value:
                raise self._explain_taken(value.name, first, offer)
        return found

    def _offer(self, value: _Plugin) -> Offer:
        return Offer(value.name, self.locate(value), "the project")

    def _explain_taken(self, name: str, first: Offer, other: Offer) -> HoneError:
        why = f"One comes from {first}, another from {other}."
        hint = "Rename one of them, or uninstall the package that you do not need."
        return HoneError(self.slug, self.clash.format(name=name), why=why, hint=hint)


def _list_folders() -> list[str]:
    """Return the folders of installed packages: those of Python's path but the current one.

    Python puts the current folder on its path, or that in which the process began. It may be a downloaded model, whose
    files must not name code to run.
    """
    here = {Path.cwd(), _START}
    return [place for place in sys.path if place and Path(place).resolve() not in here]


@lru_cache(maxsize=1)
def list_parts() -> Mapping[str, metadata.EntryPoint]:
    """Return the built-in parts above this package, by name; nothing is imported.

    Only the metadata of our own distribution is read: those of all would cost a serving process tens of milliseconds,
    and another distribution must not replace what is built in.

    Raises:
        ImportError: kedro-hone is not installed, or the installation is older than this code.
    """
    found = next(iter(metadata.distributions(name=_DISTRIBUTION, path=_list_folders())), None)
    points = () if found is None else found.entry_points
    parts = {point.name: point for point in points if point.group == _PARTS}
    if not parts:
        raise ImportError("kedro-hone's own entry points are missing: install it again, by `pip install` or `make`")
    return parts


def list_offers(group: str, builtin: Mapping[str, str]) -> list[Offer]:
    """Return the built-in plug-ins (name to target), then the entry points of a group; nothing is imported."""
    folders = map(Path, _list_folders())
    # An installation changes one of the folders of packages.
    places = tuple((str(one), one.stat().st_mtime_ns) for one in folders if one.exists())
    return [*(Offer(name, target, BUILT_IN) for name, target in builtin.items()), *_list_installed(places, group)]


def list_modules(package: str, attribute: str) -> dict[str, str]:
    """Return the target of each module in one of our packages: a new file is a new plug-in."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return {module.name: f"{package}.{module.name}:{attribute}" for module in found}


def load(
    offers: Iterable[Offer], read: Callable[[Any], _Kind]
) -> tuple[list[tuple[_Kind, Offer]], dict[str, BaseException]]:
    """Import the offered plug-ins; return what ``read`` makes of them, and the exceptions of those that failed.

    Another package's module may raise anything, or exit; this does not affect other plug-ins. Only Ctrl-C is raised.
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
    """Turn exceptions and exits of third-party code into an error for people.

    ``HoneError`` and Ctrl-C are passed on.

    The error names the ``culprit`` and the exception. With ``ours``, exceptions are bugs and are passed on too.
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
    """Return a value after checking its type; raises ``TypeError`` if it differs."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.80} is of the type {type(value).__name__}, not {kind.__name__}")
    return value


def describe_exception(error: BaseException) -> str:
    """Return type and message, as in ``ValueError: no such file``."""
    return f"{type(error).__name__}: {error}"


def locate_function(function: Callable[..., Any]) -> str:
    """Return where a function is defined, ``module.name``; a callable object is named by its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


@lru_cache(maxsize=8)
def _list_installed(places: tuple[tuple[str, int], ...], group: str) -> tuple[Offer, ...]:
    """Select the plug-ins of a group from all installed entry points; cached, since a search does this often."""
    points = _read_entry_points(places).select(group=group)
    return tuple(
        Offer(one.name, one.value, f"the package {one.dist.name if one.dist else 'unknown'}") for one in points
    )


@lru_cache(maxsize=1)
def _read_entry_points(places: tuple[tuple[str, int], ...]) -> metadata.EntryPoints:
    """Read the entry points of all distributions; cached, since this takes tens of milliseconds for each group."""
    unique: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions(path=[place for place, _ in places]):
        unique.setdefault(re.sub(r"[-_.]+", "-", str(distribution.name)).lower(), distribution)  # as Python imports
    return metadata.EntryPoints(point for distribution in unique.values() for point in distribution.entry_points)
