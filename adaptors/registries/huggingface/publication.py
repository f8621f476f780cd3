"""Publish a winner as a commit or a pull request: one request that the Hub executes completely or not at all.

Its parent is the commit that was optimized, or one in which the author's files are still the same. So the Hub refuses
it after a concurrent push. Large files are uploaded first. If the process is killed then, nothing is visible, and the
next publication need not upload them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from hone_runtime.contract.aliases import PULL
from hone_runtime.contract.proof import EVIDENCE_FOLDER, TIMINGS
from hone_runtime.contract.registry import explain_refused
from hone_runtime.contract.tags import KEY
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.huggingface import connection, references, versions
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.contents import Head, Submission, prepare
from kedro_hone.adaptors.registries.huggingface.failures import describe
from kedro_hone.adaptors.registries.huggingface.files import TAGS, is_ours
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.huggingface.snapshots import find_snapshot

_TITLE: Final = "Add a faster version, made and measured by kedro-hone"
_LARGE: Final = 1_000_000
"""The size in bytes from which a file is uploaded separately, like those in ``_BINARY``."""
_BINARY: Final = ("artifact/", f"{EVIDENCE_FOLDER}/{TIMINGS}")
_SHOWN: Final = 12
"""Characters of a publication's key in a title: enough to find it again; the whole key is in the commit."""


def open_target(hub: Connection, submission: Submission) -> Head:
    """Return the newest commit of the target; a repository that does not exist is created as private.

    Raises:
        HoneError: As in ``find_snapshot``.
    """
    target = submission.target
    if hub.offline:
        raise hub.explain(OfflineModeIsEnabled(), target)
    try:
        commit = find_snapshot(hub, target)
    except HoneError as error:
        # A private repository that is hidden from the token looks absent: creating it shows which is true.
        if error.slug != "model-unknown" or target.revision != references.MAIN:
            raise
        hub.request(lambda: hub.api.create_repo(target.name, private=True, exist_ok=True), target, tries=1)
        commit = find_snapshot(hub, target)
    return Head(commit, versions.read_published(hub, commit, stale=True))


def find_published(hub: Connection, submission: Submission, head: Head) -> str | None:
    """Return the commit of this publication on the target's branch; None if absent."""
    if head.published is None:
        return None
    if head.published.tags.get(KEY) == submission.key:
        return head.commit.sha
    name, branch, _ = submission.target
    commits = hub.request(lambda: hub.api.list_repo_commits(name, revision=branch), submission.target)
    return _find_by_key(hub, submission, [one.commit_id for one in commits if _shorten(submission.key) in one.title])


def find_proposed(hub: Connection, submission: Submission) -> tuple[str, int] | None:
    """Return the commit and the number of the open pull request of this publication; None if absent.

    It must be from the token's own account: anybody can open one with the same title and tags, but other files.
    """
    name = submission.target.name

    def search() -> list[Any]:
        found = hub.api.get_repo_discussions(name, discussion_type="pull_request", discussion_status="open")
        return [one for one in found if one.is_pull_request and _shorten(submission.key) in one.title]

    if not (found := hub.request(search, submission.target)):
        return None
    own = hub.request(hub.api.whoami, submission.target)["name"]
    for one in found:
        if one.author != own:
            continue
        sha = _find_by_key(hub, submission, [f"refs/pr/{one.num}"])
        if sha is not None:
            return sha, one.num
    return None


def propose(hub: Connection, submission: Submission, head: Head) -> tuple[str, int]:
    """Return the commit and the number of the open pull request of this publication, which is created if absent.

    Raises:
        HoneError: As in ``commit``.
    """
    found = find_proposed(hub, submission)
    if found is None:
        made = commit(hub, submission, head, proposes=True)
        found = str(made.oid), int(made.pr_num)
    return found


def _find_by_key(hub: Connection, submission: Submission, revisions: list[str]) -> str | None:
    for revision in revisions:
        snapshot = find_snapshot(hub, Reference(submission.target.name, revision))
        published = versions.read_published(hub, snapshot, stale=True)
        if published is not None and published.tags.get(KEY) == submission.key:
            return snapshot.sha
    return None


def check_parent(hub: Connection, submission: Submission, head: Head) -> None:
    """Check that the target still has the files that were optimized, if they came from there.

    Raises:
        HoneError: ``registry-moved``; ``recipe-invalid``: an author's file has a name that the winner's files need.
    """
    name, branch, _ = submission.target
    if submission.winner.source_uri.startswith("hf:"):
        source = references.read_uri(submission.winner.source_uri)
        if source.name == name and source.revision != head.commit.sha:
            optimized = find_snapshot(hub, source)
            if optimized.digest_authors(without=head.added) != head.commit.digest_authors(without=head.added):
                now = f"{branch} is at {head.commit.sha[:10]} now, with other files of the author's."
                raise describe("registry-moved", submission.target, f"{source.revision[:10]} was optimized, and {now}")
    clash = sorted(path for path in head.commit.files if is_ours(path))
    if clash and TAGS not in head.commit.files:
        what = f"{name} has its own files in the place of a winner's files: {', '.join(clash[:5])}."
        raise explain_refused(what, "A publication replaces only files of an earlier one.")


def commit(hub: Connection, submission: Submission, head: Head, *, proposes: bool) -> CommitInfo:
    """Upload a winner and commit it onto the head of the target, or propose the commit as a pull request.

    Raises:
        HoneError: As in ``check_parent``; ``registry-denied``, ``registry-full`` and so on; then nothing was committed.
    """
    check_parent(hub, submission, head)
    with TemporaryDirectory(prefix="kedro-hone-") as scratch, hide_progress():
        folder = Path(scratch)
        operations = prepare(hub, submission, head, folder)
        _upload(hub, submission, operations, proposes=proposes)
        title, (name, branch, _) = f"{_TITLE} ({_shorten(submission.key)})", submission.target
        description = (
            f"{KEY}: {submission.key}\n\nFrom {submission.winner.source_uri}; the evidence is in evidence/report.md."
        )

        def push() -> CommitInfo:
            return hub.api.create_commit(
                name,
                operations,
                commit_message=title,
                commit_description=description,
                revision=branch,
                parent_commit=head.commit.sha,
                create_pr=proposes,
            )

        # A commit is not retried automatically: the Hub may have made it, and only its response was lost.
        return hub.request(push, submission.target, tries=1, patience=connection.STALL_SECONDS)


def _upload(
    hub: Connection,
    submission: Submission,
    operations: Sequence[CommitOperationAdd | CommitOperationDelete],
    *,
    proposes: bool,
) -> None:
    """Upload the large files, one after the other; files that the Hub already has are not sent again.

    For several at once, huggingface_hub would use one thread each. This process would have to wait for them at its end,
    even if the Hub made them sleep for an hour.
    """
    name, branch, _ = submission.target
    for one in operations:
        if not isinstance(one, CommitOperationAdd):
            continue
        size = one.upload_info.size
        if size >= _LARGE or one.path_in_repo.startswith(_BINARY):
            patience = connection.PATIENCE_SECONDS + size / connection.SLOWEST_UPLOAD
            send = partial(hub.api.preupload_lfs_files, name, [one], revision=branch, free_memory=False)
            hub.request(partial(send, create_pr=proposes), submission.target, tries=1, patience=patience)


def move_alias(hub: Connection, place: Reference, alias: str, *, known: bool) -> None:
    """Make a git tag point to a commit; the Hub cannot move one, so it is deleted and created again.

    Raises:
        HoneError: As in ``commit``.
    """
    if known:
        hub.request(lambda: hub.api.delete_tag(place.name, tag=alias), place, tries=1)
    hub.request(
        lambda: hub.api.create_tag(place.name, tag=alias, revision=place.revision, exist_ok=False), place, tries=1
    )


def find_given(hub: Connection, name: str, sha: str | None, pull: str | None) -> str | None:
    """Return an alias's commit if a publication of the same pull moved it there; None otherwise."""
    if not sha or not pull:
        return None
    published = versions.read_published(hub, find_snapshot(hub, Reference(name, sha)), stale=True)
    return sha if published is not None and published.tags.get(PULL) == pull else None


def _shorten(key: str) -> str:
    return key.removeprefix("sha256:")[:_SHOWN]


@contextmanager
def hide_progress() -> Iterator[None]:
    """Disable huggingface_hub's progress bars temporarily: the run has its own display."""
    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            enable_progress_bars()
