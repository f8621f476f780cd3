"""The contract of a model registry, what it says of a version, and the tags of a published one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from pydantic import Field, TypeAdapter

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.errors import HoneError
from kedro_hone.core.text import suggest
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.decision import Verdict

SOURCE: Final = "hone.source"
"""The tag with the URI of the version that was optimized; only winners carry it."""
RECIPE: Final = "hone.recipe"
"""The tag with the recipe's digest."""


class VersionInfo(Value):
    """What a registry knows of a version (or revision) without downloading it.

    Attributes:
        uri: The URI with the version pinned, such as ``models:/digits/3``; ``find_registry`` finds its registry again.
        name: The registered model's name.
    """

    uri: str
    name: str
    version: str
    aliases: tuple[str, ...] = ()
    tags: dict[str, str] = Field(default_factory=dict)

    @property
    def is_optimized(self) -> bool:
        """Whether this is a winner of ours: no event starts an optimization of it, though a person may."""
        return SOURCE in self.tags


class Publication(Value):
    """Where a winner went: its new version, and the alias that points to it."""

    uri: str
    version: str
    alias: str | None


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
        ...

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download a version's files, as the registry holds them, and return the version; raises as ``resolve``.

        The folder is empty, and made when it does not exist.
        """
        ...

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return the versions of all models that are new since the last call, oldest first, and the next cursor.

        Winners are among them; ``VersionInfo.is_optimized`` tells them from sources. The cursor is opaque text, and
        None to begin with everything that the registry holds.

        Raises:
            HoneError: ``registry-unreachable``.
        """
        ...

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
    ) -> Publication:
        """Write a new version with all its evidence, or none; the same publication twice gives the same version.

        Args:
            winner: The winner with what proves it.
            name: The model, as ``VersionInfo.name`` or the recipe says.
            tags: From ``make_tags``.
            alias: What is to point to the new version, or None; it is moved last.
            metrics: Numbers that the registry shows next to the version.

        Raises:
            HoneError: ``registry-unreachable`` or ``evidence-incomplete``.
        """
        ...


def make_tags(
    winner: ProvenWinner, *, recipe: str, speedup: float | None = None, data: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the tags of a publication, with the digests of the recipe and of each split by its name.

    The speed-up is the estimate of source time over winner time; there is no tag of what is not known.
    """
    return {
        SOURCE: winner.source_uri,
        "hone.source_digest": winner.source_digest,
        "hone.digest": winner.artifact.digest,
        RECIPE: recipe,
        "hone.run": winner.evidence.run_id,
        "hone.verdict": Verdict.PASS.value,
        **({} if speedup is None else {"hone.speedup": f"{speedup:.3f}"}),
        **{f"hone.data.{split}": digest for split, digest in (data or {}).items()},
    }


def explain_unknown(
    slug: str, what: str, name: str, known: Sequence[str], nouns: str, *, advice: str = ""
) -> HoneError:
    """Return the error for an unknown name: what there is (``nouns``, in the plural), the nearest, and the advice."""
    shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    hint = suggest(name, known).rstrip() or ("Choose one of these." if known else "Register one first.")
    why = f"There are the {nouns} {shown}." if known else f"There are no {nouns}."
    return HoneError(slug, what, why=why, hint=hint + advice)
