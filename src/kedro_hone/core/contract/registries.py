"""Which model registries there are, by the scheme of a URI. Ours are in a literal table; others by entry point."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import urlsplit

from kedro_hone.core.contract.registry import Publication, Registry, VersionInfo
from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import BUILT_IN, Offer, Plugins, check_kind, guard, list_offers, load
from kedro_hone.core.text import suggest

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
_PLUGINS: Final = Plugins[Offer](slug="registry-scheme-taken", clash="Two registries serve {name}:/….", locate=str)
_RETURNS: Final[Mapping[str, type]] = MappingProxyType(
    {"resolve": VersionInfo, "pull": VersionInfo, "versions_since": tuple, "publish": Publication}
)


class GuardedRegistry:
    """A registry of another package: each method of the contract returns what it must, or raises a ``HoneError``.

    Without it the exception of a stranger's code would be reported as a bug of ours, and its ``sys.exit(0)`` would end
    a run as if all had gone well.
    """

    def __init__(self, registry: Registry, offer: Offer) -> None:
        self.registry, self._offer = registry, offer

    def __getattr__(self, name: str) -> Any:
        if name not in _RETURNS:
            raise AttributeError(name)

        def call(*args: Any, **named: Any) -> Any:
            with _guard(self._offer, f"its method {name}"):
                return check_kind(getattr(self.registry, name)(*args, **named), _RETURNS[name])

        return call


def read_registries(builtin: Mapping[str, str] = REGISTRIES) -> dict[str, Offer]:
    """Return every registry that is installed, by its scheme: ours, then those of other packages. Nothing is imported.

    Raises:
        HoneError: ``registry-scheme-taken``, when two packages offer one scheme.
    """
    offers = [offer._replace(name=offer.name.lower()) for offer in list_offers(ENTRY_POINTS, builtin)]
    return {scheme: offer for scheme, (offer, _) in _PLUGINS.merge(zip(offers, offers, strict=True)).items()}


def find_broken(offers: Collection[Offer]) -> dict[str, BaseException]:
    """Import registries, and return why those that cannot be used cannot, by where they come from."""
    odd = {str(offer): offer.name for offer in offers if offer.name and not _SCHEME.fullmatch(offer.name)}
    rule = "cannot be the scheme of a URI: write letters, digits, +, - and dots"
    return load(offers, lambda _: None)[1] | {place: ValueError(f"{name!r} {rule}") for place, name in odd.items()}


def find_registry(uri: str, builtin: Mapping[str, str] = REGISTRIES, *, project: Path | None = None) -> Registry:
    """Return the registry that serves a URI, such as ``models:/digits/3``, or a path, made with its defaults.

    Relative paths count from the project, or from the current folder when it is not given.

    Raises:
        HoneError: ``registry-unknown``, with the schemes that are served; ``registry-scheme-taken``;
            ``registry-broken``: the package of others cannot be imported, or makes something else; or what the registry
            itself raises.
    """
    scheme, registries = urlsplit(uri).scheme, read_registries(builtin)
    if scheme not in registries:
        known = ", ".join(f"{name}:/…" if name else "a path" for name in sorted(registries, reverse=True))
        raise HoneError(
            "registry-unknown",
            f"No registry serves {uri!r}.",
            why=f"Nothing is known of the scheme {scheme!r}; there are: {known}.",
            hint=suggest(scheme, filter(None, registries), "{}:/…")
            + "Name a version as models:/<name>/<version> or models:/<name>@<alias>, or give a path.",
        )
    offer = registries[scheme]
    with _guard(offer, offer.target):
        factory = offer.load()
        takes = project is not None and "project" in inspect.signature(factory).parameters
        made = factory(project=project) if takes else factory()
        registry: Registry = check_kind(made, Registry)  # type: ignore[type-abstract]  # a protocol, checked at run time
    return registry if offer.origin == BUILT_IN else cast("Registry", GuardedRegistry(registry, offer))


def _guard(offer: Offer, culprit: str) -> AbstractContextManager[None]:
    return guard(
        "registry-broken",
        f"The registry of {offer.name}:/… cannot be used.",
        culprit=f"It comes from {offer.origin}, and {culprit}",
        hint="Update or uninstall the package; `kedro hone registries` shows what cannot be imported.",
        ours=offer.origin == BUILT_IN,
    )
