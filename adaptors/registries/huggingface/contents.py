"""The content of a publication's commit: a winner's files, the card of the repository, and ``hone.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete

from hone_runtime.contract.proof import EVIDENCE, ProvenWinner
from hone_runtime.contract.registry import explain_refused
from hone_runtime.contract.tags import KEY
from kedro_hone.adaptors.registries.huggingface import references
from kedro_hone.adaptors.registries.huggingface.card import write_card
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.files import CARD, TAGS, is_ours
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.huggingface.snapshots import Snapshot, fetch, fetch_file
from kedro_hone.adaptors.registries.huggingface.versions import Published
from kedro_hone.adaptors.registries.model_folder import (
    copy_companions,
    list_companions,
    tag_files,
    tag_metrics,
    write_winner,
)

_LARGEST_CARD: Final = 4 << 20


class Submission(NamedTuple):
    """The winner to publish, its target, its tags and its metrics."""

    winner: ProvenWinner
    target: Reference
    tags: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def key(self) -> str:
        """The key of the publication."""
        return self.tags[KEY]

    @property
    def uri(self) -> str:
        """The URI from which the target is loaded after acceptance."""
        branch = self.target.revision
        return Reference(self.target.name, "" if branch == references.MAIN else branch).uri


class Head(NamedTuple):
    """The newest commit of a target, and the earlier publication recorded in its ``hone.json``; None if absent."""

    commit: Snapshot
    published: Published | None

    @property
    def added(self) -> tuple[str, ...]:
        """The files that were added by an earlier publication, not by the repository's author."""
        return self.published.added if self.published else ()


def prepare(
    hub: Connection, submission: Submission, head: Head, folder: Path
) -> list[CommitOperationAdd | CommitOperationDelete]:
    """Write the files to commit into a folder, and return the operations: files to add, and old ones to remove."""
    winner, name = submission.winner, submission.target.name
    with TemporaryDirectory(prefix="kedro-hone-") as scratch:
        write_winner(folder, _preserve_companions(hub, head.commit, winner, Path(scratch)), name=name)
    files = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))
    source = references.read_uri(winner.source_uri).name if winner.source_uri.startswith("hf:") else None
    theirs = head.commit.files.keys() - {*head.added} if source == name else frozenset()
    added = tuple(path for path in files if not is_ours(path) and path not in theirs)
    claim = json.loads((winner.folder / EVIDENCE).read_bytes())
    known = _read_card(hub, head.commit)
    base = source if source != name else None
    card = write_card(winner, claim, target=submission.uri, base_model=base, known=known)
    (folder / CARD).write_text(card, encoding="utf-8")
    published = Published(
        tags={**submission.tags, **tag_metrics(submission.metrics), **tag_files(folder)},
        files=files,
        added=added,
        authors=head.commit.digest_authors(without=added),
    )
    (folder / TAGS).write_text(published.model_dump_json(indent=1) + "\n", encoding="utf-8")
    gone = sorted(
        path for path in (head.published.files if head.published else ()) if is_ours(path) and path not in files
    )
    adds = [CommitOperationAdd(path, str(folder / path)) for path in (*files, CARD, TAGS)]
    return [*adds, *(CommitOperationDelete(path) for path in gone if path in head.commit.files)]


def _read_card(hub: Connection, head: Snapshot) -> str:
    """Return the card of a repository; empty if absent.

    Raises:
        HoneError: ``recipe-invalid``: it is too large for a card.
    """
    if CARD not in head.files:
        return ""
    if head.files[CARD].size > _LARGEST_CARD:
        what = f"The card of {head.name} ({CARD}) has {head.files[CARD].size} bytes."
        raise explain_refused(what, f"It would be read and extended, and no card is larger than {_LARGEST_CARD} bytes.")
    return fetch_file(hub, head, CARD).read_text("utf-8", "replace")


def _preserve_companions(hub: Connection, head: Snapshot, winner: ProvenWinner, folder: Path) -> ProvenWinner:
    """Return a winner with the repository's versions of its companions: no file of the author is replaced."""
    if winner.companions is None:
        return winner
    names = tuple(name for name in list_companions(winner.companions) if name in head.files)
    copy_companions(winner.companions, folder, known=fetch(hub, head, names))
    return replace(winner, companions=folder)
