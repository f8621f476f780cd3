"""The contract of a model registry, and what it returns for a version."""

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
"""The variable that is set where an event, and no person, started a run: it optimizes no winner again."""


class VersionInfo(Value):
    """What a registry returns for a version (or revision) without downloading it.

    Attributes:
        uri: The URI with the version pinned, such as ``models:/digits/3``; ``find_registry`` finds its registry again.
        name: The model that it is a version of; empty if it belongs to none, so that a recipe must name one to publish.
        pointers: Of the model that a winner goes to, by its name: the version of each alias when this was pulled.
        pulled: The run that pulled it; empty if it was only looked up.
        base: Of an adapter, the URI of the model that it was merged into, with the version pinned.
        created: Seconds since 1970 by the registry's clock, set by ``versions_since``; 0 if unknown.
        again: Whether another model had its name, and perhaps its number, before; set by ``versions_since``.
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
        alias: The alias that points to it; None if none does; ``note`` has the reason if one should.
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


class NewVersions(NamedTuple):
    """What ``Registry.versions_since`` found.

    Attributes:
        infos: The versions of all models that are new since the last call, oldest first.
        cursor: Opaque text for the next call.
        skipped: Why versions could not be read, by their URI; the next call tries them again.
    """

    infos: tuple[VersionInfo, ...]
    cursor: str
    skipped: Mapping[str, str] = {}


@runtime_checkable
class Registry(Protocol):
    """A store of model versions: sources are pulled from it, and winners published to it.

    A registry derives from this class and writes three methods: ``resolve``, ``pull`` and ``publish``. All others have
    a default, and are overridden by a registry that offers more. It is made for the current environment and, where its
    ``__init__`` has a parameter ``project``, for that folder. What does not exist, or cannot be reached, is a
    ``HoneError``; the URIs of the versions that it returns have its own scheme.

    Attributes:
        keeps_versions_apart: Whether a version without an alias is loaded by its own name only. On a branch, everybody
            loads the newest commit. Winners that wait for a quiet machine are published only where this is true.
        has_proposals: Whether ``propose`` works.
    """

    keeps_versions_apart: bool = False
    has_proposals: bool = False

    @abstractmethod
    def resolve(self, uri: str) -> VersionInfo:
        """Return a version (named by an alias, or as the scheme has it) without downloading it.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown`` or ``registry-unreachable``.
        """

    @abstractmethod
    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download a version's files, as the registry has them, and return the version; raises as ``resolve``.

        The folder is empty, and made if it does not exist. Its files may be linked into the store and made read-only.
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
        """Write a new version with all its evidence, or none; the same publication twice gives the same version.

        Args:
            winner: What is published.
            name: The model that it becomes a version of: that of ``VersionInfo``, or of the recipe.
            tags: What ``tags.make_tags`` returned, and others.
            alias: What points to the version afterwards, also if it existed before; it is moved last. None for no move.
            metrics: Numbers that the registry shows next to the version.
            before: What ``list_aliases`` returned when the source was pulled: an alias that others moved since stays.
                None if unknown. Only given to a registry with ``list_aliases``.

        Raises:
            HoneError: ``registry-unreachable``, ``evidence-incomplete``, or ``recipe-invalid``: the registry refuses
                the name or the alias.
        """

    def propose(self, winner: ProvenWinner, **named: Any) -> Publication:
        """Write a winner as ``publish`` does, with the same arguments, for somebody else to accept.

        No alias is moved before that, and the note names the place where it can be accepted, such as a pull request.
        The same publication again finds the proposal, and moves the alias once it was accepted.

        Raises:
            HoneError: As ``publish``.
        """
        raise _explain_lacking("proposals")

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why no winner can be published to a model of this name, or under this alias; empty if it can.

        It is called before the model is pulled, and contacts nobody. None is a name that is the source's own, and no
        alias.
        """
        return ""

    def find_source(self, uri: str) -> str:
        """Return the URI of the source to optimize if a URI may name the winner next to it; raises as ``resolve``."""
        return uri

    def versions_since(self, cursor: str | None) -> NewVersions:
        """Return the versions that are new since a cursor; None to begin with everything that the registry has.

        Winners are among them; ``VersionInfo.is_optimized`` tells them from sources. What cannot be read is skipped: an
        error is of the registry, and not of one version, which would hide all others.

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
        """Return the URI of a version that ``list_aliases`` returned, which ``resolve`` takes."""
        raise _explain_lacking("aliases")

    def move_alias(self, uri: str, alias: str) -> None:
        """Let an alias point to a version, wherever it was.

        Raises:
            HoneError: As ``resolve``; ``recipe-invalid``: the registry refuses the alias.
        """
        raise _explain_lacking("aliases")


def check_names(registry: Registry, *, name: str | None, alias: str | None) -> None:
    """Check that a registry takes a model's name and an alias.

    Raises:
        HoneError: ``recipe-invalid``: it refuses one of them.
    """
    if problem := registry.find_problem(name=name, alias=alias):
        raise explain_refused("The registry refuses the name or the alias that the winner is to have.", problem)


def explain_refused(what: str, why: str) -> HoneError:
    """Return the error for a model's name, or an alias, that a registry refuses."""
    hint = "Mend hone.publish.name or hone.publish.alias; an existing winner needs only `--pipelines publish`."
    return HoneError("recipe-invalid", what, why=why, hint=hint)


def explain_unknown(
    slug: str, what: str, name: str, known: Sequence[str], nouns: str, *, advice: str = ""
) -> HoneError:
    """Return the error for an unknown name: the known ones (``nouns``, in the plural), the nearest, and the advice."""
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
        why="Its class does not write the optional method of the contract that this needs.",
        hint="Use another registry, or override the method of hone_runtime.contract.registry.Registry.",
    )
