"""Which model registries there are, by the scheme of a URI. Ours are in a literal table; others by entry point."""

from __future__ import annotations

import difflib
import inspect
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from kedro_hone.core.contract.entry_points import list_entry_points
from kedro_hone.core.contract.guarded import GuardedRegistry
from kedro_hone.core.contract.registry import Registry
from kedro_hone.core.errors import HoneError

REGISTRIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "models": "kedro_hone.adaptors.registries.mlflow.registry:MlflowRegistry",
        "": "kedro_hone.adaptors.registries.local.registry:LocalRegistry",
    }
)
"""Our model registries: the scheme of a URI to the class that serves it. A path has no scheme."""

ENTRY_POINTS: Final = "kedro_hone.registries"
"""The entry-point group of other packages: the name is a scheme, the value a class or a function that makes one."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_BUILT_IN: Final = "built in"


@dataclass(frozen=True, kw_only=True)
class RegistryOffer:
    """A registry that is installed; nothing of it is imported yet.

    Attributes:
        scheme: The scheme of its URIs; empty for paths.
        origin: Where it comes from, for a person: ``built in`` or ``the package NAME``.
    """

    scheme: str
    origin: str
    point: metadata.EntryPoint

    def make(self, project: Path | None = None) -> Registry:
        """Import the registry and make one with its defaults; one of another package is a ``GuardedRegistry``.

        Args:
            project: The project's folder, for registries that take one; the current folder when not given.

        Raises:
            HoneError: ``registry-broken``: the package of others cannot be imported or makes something else; or what
                the registry itself raises.
        """
        try:
            factory = self.point.load()
            takes = project is not None and "project" in inspect.signature(factory).parameters
            registry = factory(project=project) if takes else factory()
            if not isinstance(registry, Registry):
                raise TypeError(f"it makes a {type(registry).__name__}, which is not a Registry")  # noqa: TRY301 - see below
        except HoneError:
            raise
        except (Exception, SystemExit) as error:
            if self.origin == _BUILT_IN:
                raise
            raise HoneError(
                "registry-broken",
                f"The registry of {self.scheme}:/… cannot be used.",
                why=f"It comes from {self.origin}, and {self.point.value} failed: {type(error).__name__}: {error}.",
                hint="See `kedro hone registries` for the traceback; update or uninstall the package.",
            ) from error
        return (
            registry if self.origin == _BUILT_IN else GuardedRegistry(registry, origin=self.origin, scheme=self.scheme)
        )

    def find_fault(self) -> str | None:
        """Return why the registry cannot be used, as a traceback; None when it can be imported."""
        if self.scheme and not _SCHEME.fullmatch(self.scheme):
            return f"{self.scheme!r} cannot be the scheme of a URI: write letters, digits, +, - and dots.\n"
        try:
            self.point.load()
        except (Exception, SystemExit):  # noqa: BLE001  (a stranger's module may raise anything; it is shown, not lost)
            return traceback.format_exc()
        return None


def read_registries(builtin: Mapping[str, str] = REGISTRIES) -> Mapping[str, RegistryOffer]:
    """Return every registry that is installed, by its scheme: ours, then those of other packages.

    Raises:
        HoneError: ``registry-scheme-taken``, when two packages offer one scheme.
    """
    points = [(metadata.EntryPoint(scheme, target, ENTRY_POINTS), _BUILT_IN) for scheme, target in builtin.items()]
    points += list_entry_points(ENTRY_POINTS)
    offers: dict[str, RegistryOffer] = {}
    for point, origin in points:
        offer = RegistryOffer(scheme=point.name.lower(), origin=origin, point=point)
        other = offers.setdefault(offer.scheme, offer)
        if (other.point.value, other.origin) != (point.value, origin):
            raise HoneError(
                "registry-scheme-taken",
                f"Two registries serve {offer.scheme}:/….",
                why=f"One comes from {other.origin} ({other.point.value}), another from {origin} ({point.value}).",
                hint="Uninstall the package that you do not need.",
            )
    return MappingProxyType(offers)


def find_registry(uri: str, builtin: Mapping[str, str] = REGISTRIES, *, project: Path | None = None) -> Registry:
    """Return the registry that serves a URI, such as ``models:/digits/3``, or a path, made with its defaults.

    Relative paths count from the project, or from the current folder when it is not given.

    Raises:
        HoneError: ``registry-unknown``, with the schemes that are served; ``registry-scheme-taken`` or
            ``registry-broken``.
    """
    scheme, registries = urlsplit(uri).scheme, read_registries(builtin)
    if scheme not in registries:
        known = ", ".join(f"{name}:/…" if name else "a path" for name in sorted(registries, reverse=True))
        nearest = difflib.get_close_matches(scheme, [name for name in registries if name], n=1)
        raise HoneError(
            "registry-unknown",
            f"No registry serves {uri!r}.",
            why=f"Nothing is known of the scheme {scheme!r}; there are: {known}.",
            hint=(f"Did you mean {nearest[0]}:/…? " if nearest else "")
            + "Name a version as models:/<name>/<version> or models:/<name>@<alias>, or give a path.",
        )
    return registries[scheme].make(project)
