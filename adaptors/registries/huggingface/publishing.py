"""A winner as a commit or a pull request: one request that the Hub fulfils whole or not at all.

Its parent is the commit that was optimized, or one in which the author's files are still the same, so that a push in
between is refused by the Hub. Large files are uploaded before; what is killed there leaves nothing that anybody sees,
and the next publication need not upload them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from kedro_hone.adaptors.registries.huggingface import connection, references, versions
from kedro_hone.adaptors.registries.huggingface.card import write_card
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.download import fetch
from kedro_hone.adaptors.registries.huggingface.explaining import Place, explain_moved, explain_offline
from kedro_hone.adaptors.registries.huggingface.files import CARD, TAGS, is_ours
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.huggingface.versions import Published, Snapshot
from kedro_hone.adaptors.registries.model_folder import copy_companions, list_companions, tag_files, write_winner
from kedro_hone.core.contract.aliases import PULL
from kedro_hone.core.contract.proof import EVIDENCE, EVIDENCE_FOLDER, TIMINGS, ProvenWinner
from kedro_hone.core.contract.registry import explain_refused
from kedro_hone.core.contract.tags import KEY
from kedro_hone.core.errors import HoneError

_TITLE: Final = "Add a faster version, made and measured by kedro-hone"
_LARGE: Final = 1_000_000
"""Bytes from which a file is uploaded by itself, as those of ``_BINARY`` are."""
_LARGEST_CARD: Final = 4 << 20
_BINARY: Final = ("artifact/", f"{EVIDENCE_FOLDER}/{TIMINGS}")
_SHOWN: Final = 12
"""Characters of a publication's key in a title: enough to find it again; the whole key is in the commit."""


class Order(NamedTuple):
    """What is to be published, and where."""

    winner: ProvenWinner
    target: Reference
    tags: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def key(self) -> str:
        """The key of the publication."""
        return self.tags[KEY]

    @property
    def place(self) -> Place:
        """The target, for errors."""
        return Place(*self.target, writes=True)

    @property
    def uri(self) -> str:
        """The target as it is loaded, once it was accepted."""
        name, branch = self.target
        return f"hf://{name}" + (f"@{branch}" if branch != references.MAIN else "")


def open_target(hub: Connection, order: Order) -> Snapshot:
    """Return the newest commit of the target; a repository that does not exist is made, private.

    Raises:
        HoneError: As ``find_snapshot``.
    """
    if hub.offline:
        raise explain_offline(order.place)
    try:
        return versions.find_snapshot(hub, order.target)
    except HoneError as error:
        # Without the right to see it, a private repository looks as if there were none: making it tells which.
        if error.slug != "model-unknown" or order.target.revision != references.MAIN:
            raise
    name = order.target.name
    hub.ask(lambda: hub.api.create_repo(name, private=True, exist_ok=True), order.place, tries=1)
    return versions.find_snapshot(hub, order.target)


def find_published(hub: Connection, order: Order, head: Snapshot) -> str | None:
    """Return the commit of this publication on the target's branch, if it was made already."""
    said = versions.read_published(hub, head, stale=True)
    if said is None:
        return None
    if said.tags.get(KEY) == order.key:
        return head.sha
    name, branch = order.target
    commits = hub.ask(lambda: hub.api.list_repo_commits(name, revision=branch), order.place)
    return _find_by_key(hub, order, [one.commit_id for one in commits if _shorten(order.key) in one.title])


def find_proposed(hub: Connection, order: Order) -> tuple[str, int] | None:
    """Return the commit and the number of the open pull request of this publication, if there is one.

    It is one of the token's own account: anybody can open another with the same title and tags, and other files.
    """
    name = order.target.name

    def search() -> list[Any]:
        found = hub.api.get_repo_discussions(name, discussion_type="pull_request", discussion_status="open")
        return [one for one in found if one.is_pull_request and _shorten(order.key) in one.title]

    if not (found := hub.ask(search, order.place)):
        return None
    own = hub.ask(hub.api.whoami, order.place)["name"]
    for one in found:
        if one.author != own:
            continue
        sha = _find_by_key(hub, order, [f"refs/pr/{one.num}"])
        if sha is not None:
            return sha, one.num
    return None


def _find_by_key(hub: Connection, order: Order, revisions: list[str]) -> str | None:
    for revision in revisions:
        snapshot = versions.find_snapshot(hub, Reference(order.target.name, revision))
        said = versions.read_published(hub, snapshot, stale=True)
        if said is not None and said.tags.get(KEY) == order.key:
            return snapshot.sha
    return None


def check_parent(hub: Connection, order: Order, head: Snapshot) -> None:
    """Check that the target still holds the files that were optimized, if it is where they came from.

    Raises:
        HoneError: ``registry-moved``; ``recipe-invalid``: it has a file of its own of a name that a winner needs.
    """
    name = order.target.name
    if order.winner.source_uri.startswith("hf:"):
        source = references.read_uri(order.winner.source_uri)
        if source.name == name and source.revision != head.sha:
            optimized, ours = versions.find_snapshot(hub, source), _list_added(hub, head)
            if optimized.digest_authors(without=ours) != head.digest_authors(without=ours):
                now = f"{order.target.revision} is at {head.sha[:10]} now, with other files of the author's."
                raise explain_moved(name, f"{source.revision[:10]} was optimized, and {now}")
    clash = sorted(path for path in head.files if is_ours(path))
    if clash and TAGS not in head.files:
        what = f"{name} has files of its own where those of a winner would go: {', '.join(clash[:5])}."
        raise explain_refused(what, "A publication replaces only files of an earlier one.")


def _list_added(hub: Connection, head: Snapshot) -> tuple[str, ...]:
    """Return the files of a repository that an earlier publication brought, and not its author."""
    before = versions.read_published(hub, head, stale=True)
    return before.added if before else ()


def commit(hub: Connection, order: Order, head: Snapshot, *, proposes: bool) -> CommitInfo:
    """Upload a winner and commit it onto the head of the target, or propose that as a pull request.

    Raises:
        HoneError: ``registry-moved``, ``registry-denied``, ``registry-full`` and so on; nothing was committed then.
    """
    with TemporaryDirectory(prefix="kedro-hone-") as scratch, hide_progress():
        folder = Path(scratch)
        operations = _prepare(hub, order, head, folder)
        _upload(hub, order, operations, proposes=proposes)
        title, (name, branch) = f"{_TITLE} ({_shorten(order.key)})", order.target
        description = f"{KEY}: {order.key}\n\nFrom {order.winner.source_uri}; the evidence is in evidence/report.md."

        def push() -> CommitInfo:
            return hub.api.create_commit(
                name,
                operations,
                commit_message=title,
                commit_description=description,
                revision=branch,
                parent_commit=head.sha,
                create_pr=proposes,
            )

        # A commit is not tried again by itself: the Hub may have made it and lost its response.
        return hub.ask(push, order.place, tries=1, patience=connection.STALL_SECONDS)


def _upload(
    hub: Connection,
    order: Order,
    operations: Sequence[CommitOperationAdd | CommitOperationDelete],
    *,
    proposes: bool,
) -> None:
    """Upload the large files, one after the other; what the Hub has already is not sent again.

    Of several at once, huggingface_hub would upload each in a thread that this process has to wait for at its end, even
    where the Hub asked it to sleep for an hour.
    """
    name, branch = order.target
    for one in operations:
        if not isinstance(one, CommitOperationAdd):
            continue
        size = one.upload_info.size
        if size >= _LARGE or one.path_in_repo.startswith(_BINARY):
            patience = connection.PATIENCE_SECONDS + size / connection.SLOWEST_UPLOAD
            send = partial(hub.api.preupload_lfs_files, name, [one], revision=branch, free_memory=False)
            hub.ask(partial(send, create_pr=proposes), order.place, tries=1, patience=patience)


def _prepare(
    hub: Connection, order: Order, head: Snapshot, folder: Path
) -> list[CommitOperationAdd | CommitOperationDelete]:
    """Write what is committed into a folder, and return the operations: files to add, and old ones to remove."""
    winner, name = order.winner, order.target.name
    with TemporaryDirectory(prefix="kedro-hone-") as scratch:
        write_winner(folder, _keep_companions(hub, head, winner, Path(scratch)), name=name)
    files = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))
    source = references.read_uri(winner.source_uri).name if winner.source_uri.startswith("hf:") else None
    theirs = head.files.keys() - {*_list_added(hub, head)} if source == name else frozenset()
    added = tuple(path for path in files if not is_ours(path) and path not in theirs)
    claim = json.loads((winner.folder / EVIDENCE).read_bytes())
    known = _read_card(hub, head)
    base = source if source != name else None
    card = write_card(winner, claim, target=order.uri, base_model=base, known=known)
    (folder / CARD).write_text(card, encoding="utf-8")
    before = versions.read_published(hub, head, stale=True)
    numbers = {f"hone.metric.{metric}": repr(float(value)) for metric, value in order.metrics.items()}
    said = Published(
        tags={**order.tags, **numbers, **tag_files(folder)},
        files=files,
        added=added,
        authors=head.digest_authors(without=added),
    )
    (folder / TAGS).write_text(said.model_dump_json(indent=1) + "\n", encoding="utf-8")
    gone = sorted(path for path in (before.files if before else ()) if is_ours(path) and path not in files)
    adds = [CommitOperationAdd(path, str(folder / path)) for path in (*files, CARD, TAGS)]
    return [*adds, *(CommitOperationDelete(path) for path in gone if path in head.files)]


def _read_card(hub: Connection, head: Snapshot) -> str:
    """Return the card that a repository has, or nothing.

    Raises:
        HoneError: ``recipe-invalid``: it is too large to be one.
    """
    if CARD not in head.files:
        return ""
    if head.files[CARD].size > _LARGEST_CARD:
        what = f"The card of {head.name} ({CARD}) has {head.files[CARD].size} bytes."
        raise explain_refused(what, f"It would be read and extended, and no card is larger than {_LARGEST_CARD} bytes.")
    return fetch(hub, head, (CARD,))[CARD].read_text("utf-8", "replace")


def _keep_companions(hub: Connection, head: Snapshot, winner: ProvenWinner, folder: Path) -> ProvenWinner:
    """Return a winner whose companions are as the repository has them: none of its author's files is replaced."""
    if winner.companions is None:
        return winner
    names = tuple(name for name in list_companions(winner.companions) if name in head.files)
    copy_companions(winner.companions, folder, known=fetch(hub, head, names))
    return replace(winner, companions=folder)


def move_alias(hub: Connection, place: Place, alias: str, sha: str, *, known: bool) -> None:
    """Let a git tag point to a commit; the Hub cannot move one, so that it is removed and made again.

    Raises:
        HoneError: As ``commit``.
    """
    if known:
        hub.ask(lambda: hub.api.delete_tag(place.name, tag=alias), place, tries=1)
    hub.ask(lambda: hub.api.create_tag(place.name, tag=alias, revision=sha, exist_ok=False), place, tries=1)


def find_given(hub: Connection, name: str, sha: str | None, pull: str | None) -> str | None:
    """Return a commit that an alias points to if a publication of the same pull put it there, else None."""
    if not sha or not pull:
        return None
    said = versions.read_published(hub, versions.find_snapshot(hub, Reference(name, sha)), stale=True)
    return sha if said is not None and said.tags.get(PULL) == pull else None


def _shorten(key: str) -> str:
    return key.removeprefix("sha256:")[:_SHOWN]


@contextmanager
def hide_progress() -> Iterator[None]:
    """Turn huggingface_hub's progress bars off for a while: the run has a display of its own."""
    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
