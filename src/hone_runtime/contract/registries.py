"""The installed registries, by the scheme of a URI; those of other packages are guarded."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, get_type_hints
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from hone_runtime.contract.plugins import BUILT_IN, Offer, Plugins, check_kind, guard, list_offers, list_parts, load
from hone_runtime.contract.registry import NewVersions, Publication, Registry, VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.text import suggest

ENTRY_POINTS: Final = "kedro_hone.registries"
"""The entry-point group of other packages: the name is a scheme, the value a class or a factory function."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_PLUGINS: Final = Plugins[Offer](
    slug="registry-scheme-taken", clash="Two registries serve the scheme {name}.", locate=str
)


class GuardedMethod:
    """A method of another package's registry: it returns the contract's type, or raises a ``HoneError``.

    Without this guard, an exception of third-party code would be reported as our bug, and its ``sys.exit(0)`` would end
    a run as if it had succeeded.
    """

    def __init__(self, method: Callable[..., object], name: str, offer: Offer) -> None:
        self._method, self._name, self._offer = method, name, offer

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the method, and check its result."""
        returns = get_type_hints(getattr(Registry, self._name))["return"]
        with _guard(self._offer, f"its method {self._name}"):
            value = TypeAdapter(returns).validate_python(self._method(*args, **named), strict=True)
            for one in value.infos if isinstance(value, NewVersions) else (value,):
                if isinstance(one, VersionInfo | Publication):
                    _check_own(one, self._offer.name)
            return value


def _check_own(value: VersionInfo | Publication, scheme: str) -> None:
    """Raise ``ValueError`` if a registry returned a version with a URI that is not its own."""
    if urlsplit(value.uri).scheme != scheme:
        raise ValueError(f"{value.uri!r} is not a URI of the scheme {scheme}")
    for part in ("name", "version"):
        if not getattr(value, part, part):
            raise ValueError(f"the {part} is empty")


def guard_registry(registry: Registry, offer: Offer) -> Registry:
    """Guard each method of a registry of another package, in place, and return the registry."""
    for name, member in vars(Registry).items():
        if callable(member) and not name.startswith("_"):
            method = getattr(registry, name)
            if not isinstance(method, GuardedMethod):  # a package may return the same registry each time
                setattr(registry, name, GuardedMethod(method, name, offer))
    return registry


def read_registries(builtin: Mapping[str, str] | None = None) -> dict[str, Offer]:
    """Return every installed registry, by its scheme: built-in ones, then those of other packages. None is imported.

    ``builtin`` replaces the table of built-in ones, from a scheme to a class; a path has the empty scheme.

    Raises:
        HoneError: ``registry-scheme-taken``: two packages offer the same scheme.
    """
    builtin = list_parts()["registries"].load() if builtin is None else builtin
    offers = [offer._replace(name=offer.name.lower()) for offer in list_offers(ENTRY_POINTS, builtin)]
    return {scheme: offer for scheme, (offer, _) in _PLUGINS.merge(zip(offers, offers, strict=True)).items()}


def find_broken(offers: Collection[Offer]) -> dict[str, BaseException]:
    """Import registries, and return the exceptions of those that cannot be used, by their origin."""
    odd = {str(offer): offer.name for offer in offers if offer.name and not _SCHEME.fullmatch(offer.name)}
    rule = "cannot be the scheme of a URI: write letters, digits, +, - and dots"
    return load(offers, lambda _: None)[1] | {place: ValueError(f"{name!r} {rule}") for place, name in odd.items()}


def find_registry(uri: str, builtin: Mapping[str, str] | None = None, *, project: Path | None = None) -> Registry:
    """Return the registry that serves a URI, such as ``models:/digits/3``, or a path; it is made with its defaults.

    Relative paths are relative to the project, or to the current folder if no project is given.

    Raises:
        HoneError: ``registry-unknown``, with the schemes that are served; ``registry-scheme-taken``;
            ``registry-not-installed``: its extra is missing; ``registry-broken``: another package's registry cannot be
            imported, or is not a registry; or what the registry itself raises.
    """
    hint = "Name a version as models:/<name>/<version> or models:/<name>@<alias>, or give a path."
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:
        raise HoneError("registry-unknown", f"{uri!r} is not a URI.", why=f"{error}.", hint=hint) from error
    registries = read_registries(builtin)
    if scheme not in registries:
        known = ", ".join(name or "a path" for name in sorted(registries, reverse=True))
        why = f"There is no registry for the scheme {scheme!r}; known schemes are: {known}."
        hint = suggest(scheme, filter(None, registries), "the scheme {}") + hint
        raise HoneError("registry-unknown", f"No registry serves {uri!r}.", why=why, hint=hint)
    offer = registries[scheme]
    with _guard(offer, offer.target):
        factory = _import(offer, uri)
        takes = project is not None and "project" in inspect.signature(factory).parameters
        made = factory(project=project) if takes else factory()
        registry: Registry = check_kind(made, Registry)  # type: ignore[type-abstract]  # a protocol, checked at run time
        return registry if offer.origin == BUILT_IN else guard_registry(registry, offer)


def _import(offer: Offer, uri: str) -> Callable[..., object]:
    """Import a registry. The client of a built-in one is in the extra with the name of the registry's folder."""
    try:
        factory: Callable[..., object] = offer.load()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if offer.origin != BUILT_IN or missing in {"", "kedro_hone", "hone_runtime"}:
            raise
        extra = offer.target.split(".")[-2]
        raise HoneError(
            "registry-not-installed",
            f"A package that {uri!r} needs is not installed.",
            why=f"The registry of the scheme {offer.name} imports {missing}, which is not installed.",
            hint=f"Install it: pip install 'kedro-hone[{extra}]'.",
        ) from error
    return factory


def _guard(offer: Offer, culprit: str) -> AbstractContextManager[None]:
    what = f"The registry of the scheme {offer.name} cannot be used."
    hint = "Update or uninstall the package; `kedro-hone registries` shows what cannot be imported."
    origin = f"It comes from {offer.origin}, and {culprit}"
    return guard("registry-broken", what, culprit=origin, hint=hint, ours=offer.origin == BUILT_IN)
