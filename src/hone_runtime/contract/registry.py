"""The contract of a model registry, and its description of a version."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from pydantic import Field, TypeAdapter

from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.contract.tags import SOURCE
from hone_runtime.errors import HoneError
from hone_runtime.text import clean_text, suggest
from hone_runtime.values.base import Value
from hone_runtime.values.digest import digest_json

UNASKED: Final = "HONE_UNASKED"
"""The variable that is set if an event, not a person, started a run: such a run never optimizes a winner."""


class VersionInfo(Value):
    """A registry's description of a version (or revision), obtained without downloading it.

    Attributes:
        uri: The URI with the version pinned, such as ``models:/digits/3``; ``find_registry`` accepts it.
        name: The model that it is a version of; empty if it belongs to none, so that a recipe must name one to publish.
        pointers: For the model that a winner is published to, by its name: the version of each alias at the time of the
            pull.
        pulled: The run that pulled it; empty if it was only resolved.
        base: For an adapter, the URI of the model that it was merged into, with the version pinned.
        created: Seconds since 1970 by the registry's clock, set by ``versions_since``; 0 if unknown.
        again: Whether another model had the same name before, and perhaps the same number; set by
            ``versions_since``.
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
        """``sha256:…`` that identifies the version, independent of its aliases and tags, which may change."""
        return digest_json([self.uri, self.name, self.version])

    @property
    def is_optimized(self) -> bool:
        """Whether this is a winner of kedro-hone: no event optimizes it again, though a person may."""
        return SOURCE in self.tags


class Publication(Value):
    """Where a winner was published.

    Attributes:
        version: The new version.
        alias: The alias that points to it; None if none does. If one should, ``note`` has the reason.
        awaits: The alias that is moved to it once a person approves; empty if no approval is awaited.
        signer: The person or key that signed it, as in the tag ``hone.signer``; empty if unsigned. Set by the node
            ``publish``.
    """

    uri: str
    version: str
    alias: str | None
    note: str = ""
    signer: str = ""
    awaits: str = ""


PUBLICATIONS: TypeAdapter[tuple[Publication, ...]] = TypeAdapter(tuple[Publication, ...])
"""Reads the output of ``publish``, for the catalog: one publication, or None."""


class NewVersions(NamedTuple):
    """The result of ``Registry.versions_since``.

    Attributes:
        infos: The versions of all models that are new since the last call, oldest first.
        cursor: Opaque text for the next call.
        skipped: Reasons why versions could not be read, by their URI; the next call tries them again.
    """

    infos: tuple[VersionInfo, ...]
    cursor: str
    skipped: Mapping[str, str] = {}


@runtime_checkable
class Registry(Protocol):
    """A store of model versions: sources are pulled from it, and winners published to it.

    A registry derives from this class and implements three methods: ``resolve``, ``pull`` and ``publish``. The others
    have a default, and a registry overrides those for which it offers more. It is constructed for the current
    environment and, if its ``__init__`` has a parameter ``project``, for that folder. If something does not exist or
    cannot be reached, a ``HoneError`` is raised. The URIs of returned versions have the registry's own scheme.

    Attributes:
        keeps_versions_apart: Whether a version without an alias is loaded only by its own name. On a branch, everybody
            loads the newest commit. Winners that wait for a quiet machine are published only if this is true.
        has_proposals: Whether ``propose`` works.
    """

    keeps_versions_apart: bool = False
    has_proposals: bool = False

    @abstractmethod
    def resolve(self, uri: str) -> VersionInfo:
        """Return a version (given by an alias, or in the scheme's own form) without downloading it.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown`` or ``registry-unreachable``.
        """

    @abstractmethod
    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download a version's files unchanged, and return the version; raises as ``resolve`` does.

        The folder is empty, and created if absent. Its files may be linked into the store and made read-only.
        """

    @abstractmethod
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
        """Write a new version with all its evidence, or nothing. Publishing the same twice gives the same version.

        Args:
            winner: The winner to publish.
            name: The model that it becomes a version of: from ``VersionInfo``, or from the recipe.
            tags: The result of ``tags.make_tags``, and others.
            alias: The alias to move to the version, also if it existed before; it is moved last. None: no alias is
                moved.
            metrics: Numbers that the registry shows with the version.
            before: The result of ``list_aliases`` when the source was pulled: an alias that others moved since is left
                as it is. None if unknown. Only passed to a registry with ``list_aliases``.

        Raises:
            HoneError: ``registry-unreachable``, ``evidence-incomplete``, or ``recipe-invalid``: the registry refuses
                the name or the alias.
        """

    def propose(self, winner: ProvenWinner, **named: Any) -> Publication:
        """Propose a winner, with the same arguments as ``publish``, for another person to accept.

        No alias is moved before acceptance. The note names the place where it can be accepted, such as a pull request.
        Calling it again for the same publication finds the proposal, and moves the alias if it was accepted.

        Raises:
            HoneError: As in ``publish``.
        """
        raise _explain_lacking("proposals")

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why no winner can be published under this model name or this alias; empty if it can.

        Called before the model is pulled; it makes no connection. None stands for the source's own name, or for no
        alias.
        """
        return ""

    def find_source(self, uri: str) -> str:
        """Return the URI of the source to optimize, if the given URI may name the winner next to it.

        Raises as ``resolve`` does.
        """
        return uri

    def versions_since(self, cursor: str | None) -> NewVersions:
        """Return the versions that are new since a cursor; None for all that the registry has.

        Winners are included; ``VersionInfo.is_optimized`` distinguishes them from sources. A version that cannot be
        read is left out: an error is raised only for the registry as a whole, since it would hide all other versions.

        Raises:
            HoneError: ``registry-unreachable``; ``registry-refused``: the registry has no such list.
        """
        raise _explain_lacking("list of new versions")

    def list_aliases(self, name: str) -> dict[str, str] | None:
        """Return the version that each alias of a model points to; None if the registry has no aliases.

        Raises:
            HoneError: ``registry-unreachable`` or ``registry-denied``.
        """
        return None

    def name_version(self, name: str, version: str) -> str:
        """Return the URI of a version that ``list_aliases`` returned, for ``resolve``."""
        raise _explain_lacking("aliases")

    def move_alias(self, uri: str, alias: str) -> None:
        """Make an alias point to a version, wherever it pointed before.

        Raises:
            HoneError: As in ``resolve``; ``recipe-invalid``: the registry refuses the alias.
        """
        raise _explain_lacking("aliases")


def check_names(registry: Registry, *, name: str | None, alias: str | None) -> None:
    """Check that a registry accepts a model's name and an alias.

    Raises:
        HoneError: ``recipe-invalid``: it refuses one of them.
    """
    if problem := registry.find_problem(name=name, alias=alias):
        raise explain_refused("The registry refuses the name or the alias of the winner.", problem)


def explain_refused(what: str, why: str) -> HoneError:
    """Return the error for a model's name, or an alias, that a registry refuses."""
    hint = "Correct hone.publish.name or hone.publish.alias; an existing winner needs only `--pipelines publish`."
    return HoneError("recipe-invalid", what, why=why, hint=hint)


def explain_unknown(
    slug: str, what: str, name: str, known: Sequence[str], nouns: str, *, advice: str = ""
) -> HoneError:
    """Return the error for an unknown name.

    It lists the known names (``nouns``, in the plural), the nearest one, and the advice.
    """
    shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    hint = suggest(name, known).rstrip() or ("Choose one of these." if known else "Register one first.")
    why = f"There are the {nouns} {shown}." if known else f"There are no {nouns}."
    return HoneError(slug, what, why=why, hint=hint + advice)


def explain_skipped(error: Exception) -> str:
    """Return why a version cannot be read, in one line, for ``NewVersions.skipped``."""
    known = HoneError.find(error)
    return clean_text(f"{type(error).__name__}: {error}" if known is None else f"{known.what} {known.why}")


def _explain_lacking(what: str) -> HoneError:
    return HoneError(
        "registry-refused",
        f"The registry has no {what}.",
        why="Its class does not implement the optional method that this needs.",
        hint="Use another registry, or override the method of hone_runtime.contract.registry.Registry.",
    )
