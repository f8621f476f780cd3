"""Which registries there are, by the scheme of a URI; those of other packages are guarded."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import NewVersions, Publication, Registry, VersionInfo
from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import BUILT_IN, Offer, Plugins, check_kind, guard, list_offers, load
from kedro_hone.core.text import suggest

_Kind = TypeVar("_Kind")

REGISTRIES: Final[Mapping[str, str]] = {
    "models": "kedro_hone.adaptors.registries.mlflow.registry:MlflowRegistry",
    "runs": "kedro_hone.adaptors.registries.mlflow.registry:MlflowRegistry",
    "hf": "kedro_hone.adaptors.registries.huggingface.registry:HuggingFaceRegistry",
    "": "kedro_hone.adaptors.registries.local.registry:LocalRegistry",
}
"""Our model registries: the scheme of a URI to the class that serves it. A path has no scheme."""

ENTRY_POINTS: Final = "kedro_hone.registries"
"""The entry-point group of other packages: the name is a scheme, the value a class or a function that makes one."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_PLUGINS: Final = Plugins[Offer](slug="registry-scheme-taken", clash="Two registries serve {name}:/….", locate=str)
_ALIASES: Final[TypeAdapter[dict[str, str] | None]] = TypeAdapter(dict[str, str] | None)
_SKIPPED: Final[TypeAdapter[dict[str, str]]] = TypeAdapter(dict[str, str])


class GuardedRegistry(Registry):
    """A registry of another package: each method returns what the contract says, or raises a ``HoneError``.

    Without it the exception of a stranger's code would be reported as a bug of ours, and its ``sys.exit(0)`` would end
    a run as if all had gone well.
    """

    def __init__(self, registry: Registry, offer: Offer) -> None:
        self.registry, self._offer = registry, offer
        self.keeps_versions_apart = registry.keeps_versions_apart
        self.has_proposals = registry.has_proposals

    def resolve(self, uri: str) -> VersionInfo:
        """Return what ``Registry.resolve`` returns."""
        return self._call("resolve", self._check_version, uri)

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Return what ``Registry.pull`` returns."""
        return self._call("pull", self._check_version, uri, folder)

    def publish(self, winner: ProvenWinner, **named: Any) -> Publication:
        """Return what ``Registry.publish`` returns."""
        return self._call("publish", self._check_publication, winner, **named)

    def propose(self, winner: ProvenWinner, **named: Any) -> Publication:
        """Return what ``Registry.propose`` returns."""
        return self._call("propose", self._check_publication, winner, **named)

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return what ``Registry.find_problem`` returns."""
        return self._call("find_problem", _check_text, name=name, alias=alias)

    def find_source(self, uri: str) -> str:
        """Return what ``Registry.find_source`` returns."""
        return self._call("find_source", _check_text, uri)

    def versions_since(self, cursor: str | None) -> NewVersions:
        """Return what ``Registry.versions_since`` returns."""
        return self._call("versions_since", self._check_new, cursor)

    def list_aliases(self, name: str) -> dict[str, str] | None:
        """Return what ``Registry.list_aliases`` returns."""
        return self._call("list_aliases", _check_aliases, name)

    def name_version(self, name: str, version: str) -> str:
        """Return what ``Registry.name_version`` returns."""
        return self._call("name_version", _check_text, name, version)

    def move_alias(self, uri: str, alias: str) -> None:
        """Do what ``Registry.move_alias`` does."""
        self._call("move_alias", lambda _: None, uri, alias)

    def _call(self, method: str, check: Callable[[object], _Kind], *args: Any, **named: Any) -> _Kind:
        with _guard(self._offer, f"its method {method}"):
            return check(getattr(self.registry, method)(*args, **named))

    def _check_version(self, value: object) -> VersionInfo:
        info = check_kind(value, VersionInfo)
        self._check_uri(info.uri, name=info.name, version=info.version)
        return info

    def _check_publication(self, value: object) -> Publication:
        publication = check_kind(value, Publication)
        self._check_uri(publication.uri, version=publication.version)
        return publication

    def _check_new(self, value: object) -> NewVersions:
        infos, cursor, skipped = check_kind(value, NewVersions)
        versions = tuple(self._check_version(info) for info in check_kind(infos, tuple))
        return NewVersions(versions, check_kind(cursor, str), _SKIPPED.validate_python(dict(skipped), strict=True))

    def _check_uri(self, uri: str, **parts: str) -> None:
        if urlsplit(uri).scheme != self._offer.name:
            raise ValueError(f"{uri!r} is no URI of {self._offer.name}:/…")
        for part, text in parts.items():
            if not text:
                raise ValueError(f"the {part} is empty")


def _check_text(value: object) -> str:
    return check_kind(value, str)


def _check_aliases(value: object) -> dict[str, str] | None:
    return _ALIASES.validate_python(value, strict=True)


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
    hint = "Name a version as models:/<name>/<version> or models:/<name>@<alias>, or give a path."
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:
        raise HoneError("registry-unknown", f"{uri!r} is no URI.", why=f"{error}.", hint=hint) from error
    registries = read_registries(builtin)
    if scheme not in registries:
        known = ", ".join(f"{name}:/…" if name else "a path" for name in sorted(registries, reverse=True))
        why = f"Nothing is known of the scheme {scheme!r}; there are: {known}."
        hint = suggest(scheme, filter(None, registries), "{}:/…") + hint
        raise HoneError("registry-unknown", f"No registry serves {uri!r}.", why=why, hint=hint)
    offer = registries[scheme]
    with _guard(offer, offer.target):
        factory = offer.load()
        takes = project is not None and "project" in inspect.signature(factory).parameters
        made = factory(project=project) if takes else factory()
        registry: Registry = check_kind(made, Registry)  # type: ignore[type-abstract]  # a protocol, checked at run time
    return registry if offer.origin == BUILT_IN else GuardedRegistry(registry, offer)


def _guard(offer: Offer, culprit: str) -> AbstractContextManager[None]:
    what, culprit = f"The registry of {offer.name}:/… cannot be used.", f"It comes from {offer.origin}, and {culprit}"
    hint = "Update or uninstall the package; `kedro hone registries` shows what cannot be imported."
    return guard("registry-broken", what, culprit=culprit, hint=hint, ours=offer.origin == BUILT_IN)
