"""The contract of a model registry, what it says of a version, and which there are, by the scheme of a URI."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import NoneType
from typing import Any, Final, Protocol, cast, runtime_checkable
from urllib.parse import urlsplit

from pydantic import Field, TypeAdapter

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.tags import SOURCE
from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import BUILT_IN, Offer, Plugins, check_kind, guard, list_offers, load
from kedro_hone.core.text import suggest
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.digest import digest_json

REGISTRIES: Final[Mapping[str, str]] = {
    "models": "kedro_hone.adaptors.registries.mlflow.registry:MlflowRegistry",
    "runs": "kedro_hone.adaptors.registries.mlflow.registry:MlflowRegistry",
    "hf": "kedro_hone.adaptors.registries.huggingface.registry:HuggingFaceRegistry",
    "": "kedro_hone.adaptors.registries.local.registry:LocalRegistry",
}
"""Our model registries: the scheme of a URI to the class that serves it. A path has no scheme."""

ENTRY_POINTS: Final = "kedro_hone.registries"
"""The entry-point group of other packages: the name is a scheme, the value a class or a function that makes one."""


UNASKED: Final = "HONE_UNASKED"
"""The variable that is set where an event, and no person, started a run: it optimizes no winner again."""


class VersionInfo(Value):
    """What a registry knows of a version (or revision) without downloading it.

    Attributes:
        uri: The URI with the version pinned, such as ``models:/digits/3``; ``find_registry`` finds its registry again.
        name: The model that it is a version of; empty where it is of none, so that a recipe must name one to publish.
        pointers: Of the model that a winner goes to, by its name: the version of each alias when this was pulled.
        pulled: The run that pulled it; empty where it was only looked up.
        base: Where it is an adapter: the URI of the model that it was merged into, with the version pinned.
        created: Seconds since 1970 by the registry's clock, as ``versions_since`` tells it; 0 where it does not.
        again: Whether another model had its name, and perhaps its number, before, as ``versions_since`` tells it.
    """

    uri: str
    name: str
    version: str
    aliases: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)
    pointers: dict[str, dict[str, str]] = Field(default_factory=dict)
    pulled: str = ""
    base: str = ""
    created: float = 0.0
    again: bool = False

    @property
    def identity(self) -> str:
        """``sha256:…`` of which version it is; its aliases and tags may change."""
        return digest_json([self.uri, self.name, self.version])

    @property
    def is_optimized(self) -> bool:
        """Whether this is a winner of ours: no event starts an optimization of it, though a person may."""
        return SOURCE in self.tags


class Publication(Value):
    """Where a winner went.

    Attributes:
        version: Its new version.
        alias: The alias that points to it; None where none does, and ``note`` says why if one was to.
        awaits: The alias that a person's approval moves to it; empty where none is waited for.
        signer: What signed it, as the tag ``hone.signer``; empty where it is not signed. The node ``publish`` sets it.
    """

    uri: str
    version: str
    alias: str | None
    note: str = ""
    signer: str = ""
    awaits: str = ""


PUBLICATIONS: TypeAdapter[tuple[Publication, ...]] = TypeAdapter(tuple[Publication, ...])
"""Reads what ``publish`` hands on, for the catalog: one publication, or none."""


@runtime_checkable
class Registry(Protocol):
    """A place that versions of models come from and go to.

    Without arguments it is made for the current environment and the current folder. What does not exist, or cannot be
    reached, is a ``HoneError``; the URIs of the versions that it returns have its own scheme.
    """

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of a version (named by an alias, or as the scheme has it), without downloading it.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown`` or ``registry-unreachable``.
        """

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download a version's files, as the registry holds them, and return the version; raises as ``resolve``.

        The folder is empty, and made when it does not exist. Its files may be linked into the store and made read-only.
        """

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why no winner can be published to a model of this name, or under this alias; empty where one can.

        It is asked before the model is pulled, and contacts nobody. None is a name that is the source's own, and no
        alias.
        """

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return the versions of all models that are new since the last call, oldest first, and the next cursor.

        Winners are among them; ``VersionInfo.is_optimized`` tells them from sources. The cursor is opaque text, and
        None to begin with everything that the registry holds.

        What cannot be read is left out and told by ``skipping.report_skipped``, and the next call tries it again: an
        error is of the registry, and not of one version, which would hide all others.
        """

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
        before: Mapping[str, str] | None = None,
    ) -> Publication:
        """Write a new version with all its evidence, or none; the same publication twice gives the same version.

        The model's ``name`` is that of ``VersionInfo`` or of the recipe, the ``tags`` are from ``tags.make_tags``. The
        ``alias`` is to point to that version afterwards, also when there was one, and is moved last. The registry shows
        the ``metrics`` next to it. ``before`` is handed to an ``AliasRegistry`` only.

        Raises:
            HoneError: ``registry-unreachable``, ``evidence-incomplete``, or ``recipe-invalid``: the registry refuses
                the name or the alias.
        """


def check_names(registry: Registry, *, name: str | None, alias: str | None) -> None:
    """Ask a registry whether it takes a model's name and an alias.

    Raises:
        HoneError: ``recipe-invalid``: it refuses one of them.
    """
    if problem := registry.find_problem(name=name, alias=alias):
        raise explain_refused("The registry refuses the name or the alias that the winner is to have.", problem)


def explain_refused(what: str, why: str) -> HoneError:
    """Return the error for a model's name, or an alias, that a registry refuses."""
    hint = "Mend hone.publish.name or hone.publish.alias; a winner that there is needs only `--pipelines publish`."
    return HoneError("recipe-invalid", what, why=why, hint=hint)


def explain_unknown(
    slug: str, what: str, name: str, known: Sequence[str], nouns: str, *, advice: str = ""
) -> HoneError:
    """Return the error for an unknown name: what there is (``nouns``, in the plural), the nearest, and the advice."""
    shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    hint = suggest(name, known).rstrip() or ("Choose one of these." if known else "Register one first.")
    why = f"There are the {nouns} {shown}." if known else f"There are no {nouns}."
    return HoneError(slug, what, why=why, hint=hint + advice)


_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_PLUGINS: Final = Plugins[Offer](slug="registry-scheme-taken", clash="Two registries serve {name}:/….", locate=str)
_RETURNS: Final[Mapping[str, type]] = {
    "resolve": VersionInfo,
    "pull": VersionInfo,
    "versions_since": tuple,
    "publish": Publication,
    "propose": Publication,
    "find_source": str,
    "find_problem": str,
    "list_aliases": dict,
    "name_version": str,
    "move_alias": NoneType,
}


class GuardedRegistry:
    """A registry of another package: each method of the contract returns what it must, or raises a ``HoneError``.

    Without it the exception of a stranger's code would be reported as a bug of ours, and its ``sys.exit(0)`` would end
    a run as if all had gone well.
    """

    def __init__(self, registry: Registry, offer: Offer) -> None:
        self.registry, self._offer = registry, offer

    def __getattr__(self, name: str) -> Any:
        if name not in _RETURNS or not hasattr(self.registry, name):
            raise AttributeError(name)

        def call(*args: Any, **named: Any) -> Any:
            with _guard(self._offer, f"its method {name}"):
                value = getattr(self.registry, name)(*args, **named)
                return _check_returned(check_kind(value, _RETURNS[name]), self._offer.name)

        return call


def _check_returned(value: Any, scheme: str) -> Any:
    """Return what a registry returned; a ``TypeError`` or ``ValueError`` where it names no version of its own."""
    if isinstance(value, tuple):
        infos, cursor = value
        check_kind(cursor, str)
        for info in check_kind(infos, tuple):
            _check_returned(check_kind(info, VersionInfo), scheme)
    elif isinstance(value, dict):
        TypeAdapter(dict[str, str]).validate_python(value, strict=True)
    elif not isinstance(value, str | None):
        if urlsplit(value.uri).scheme != scheme:
            raise ValueError(f"{value.uri!r} is no URI of {scheme}:/…")
        for attribute in ("name", "version"):
            if not getattr(value, attribute, attribute):
                raise ValueError(f"the {attribute} is empty")
    return value


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
    return registry if offer.origin == BUILT_IN else cast("Registry", GuardedRegistry(registry, offer))


def _guard(offer: Offer, culprit: str) -> AbstractContextManager[None]:
    what, culprit = f"The registry of {offer.name}:/… cannot be used.", f"It comes from {offer.origin}, and {culprit}"
    hint = "Update or uninstall the package; `kedro hone registries` shows what cannot be imported."
    return guard("registry-broken", what, culprit=culprit, hint=hint, ours=offer.origin == BUILT_IN)
