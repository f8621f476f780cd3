"""The Hugging Face Hub as a registry: ``hf://owner/name@revision``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hone_runtime.contract.aliases import PULL, find_move
from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.contract.registry import NewVersions, Publication, Registry, VersionInfo, check_names
from hone_runtime.contract.tags import KEY, derive_key
from kedro_hone.adaptors.registries.huggingface import publication, references, snapshots, versions
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.contents import Submission
from kedro_hone.adaptors.registries.huggingface.files import choose_files, list_sources
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.locks import lock_publication
from kedro_hone.adaptors.registries.model_folder import make_empty


class HuggingFaceRegistry(Registry):
    """The models of the Hub in the environment's settings, read by ``huggingface_hub``; contacted at the first use.

    A version is a commit. An alias is a git tag. A winner is a commit with the files of an MLflow model, the evidence,
    a model card, and ``hone.json`` with its tags, next to the author's files.
    """

    has_proposals = True

    def __init__(self) -> None:
        self._hub = Connection()

    def resolve(self, uri: str) -> VersionInfo:
        """Return the description of ``hf://owner/name@revision``, pinned to the commit; of ``main`` without a revision.

        This is one request. For a winner, the small file with its tags is also read, and the git tags that point to it.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``registry-denied``, ``registry-limited``,
                ``registry-unreachable``, ``registry-offline``; or ``registry-unknown``: it is not such a URI.
        """
        snapshot = snapshots.find_snapshot(self._hub, references.read_uri(uri))
        return versions.describe(self._hub, snapshot, versions.read_published(self._hub, snapshot))

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Copy the files that the format needs into an empty folder, through huggingface_hub's cache.

        They are hard links to the cache if possible, so that the disk has only one copy.

        Raises:
            HoneError: As in ``resolve``; ``store-full`` or ``store-read-only``: the cache cannot be written.
            FileExistsError: The folder is not empty.
        """
        reference = references.read_uri(uri)
        snapshot = snapshots.find_snapshot(self._hub, reference)
        published = versions.read_published(self._hub, snapshot)
        make_empty(folder)
        chosen = choose_files(list_sources(snapshot.files)) if published is None else published.files
        snapshots.check_present(snapshot, chosen)
        snapshots.check_room(self._hub, snapshot, chosen)
        snapshots.place_files(snapshots.fetch(self._hub, snapshot, chosen), folder)
        snapshots.record_revision(self._hub, reference)
        return versions.describe(self._hub, snapshot, published)

    def find_source(self, uri: str) -> str:
        """Return the source's URI for a branch whose newest commit is a winner of kedro-hone next to its source.

        It is the commit from which the winner was made, if the author's files are unchanged. For a tag or a commit that
        is a winner, that winner is returned.

        Raises:
            HoneError: As in ``resolve``.
        """
        return versions.find_source(self._hub, uri)

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why the Hub refuses ``owner/name`` or ``owner/name@branch``, or a tag; empty if it accepts both."""
        return references.find_problem(name=name, alias=alias)

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the commit that each git tag of a repository points to; empty if there is no such repository."""
        return versions.read_aliases(self._hub, references.read_target(name).name)

    def name_version(self, name: str, version: str) -> str:
        """Return the URI of a version of a model."""
        return Reference(references.read_target(name).name, version).uri

    def move_alias(self, uri: str, alias: str) -> None:
        """Make an alias, which is a git tag, point to a commit.

        Raises:
            HoneError: As in ``resolve``; ``recipe-invalid``: the alias cannot be a tag; ``registry-denied``.
        """
        info = self.resolve(uri)
        check_names(self, name=info.name, alias=alias)
        known = alias in versions.read_aliases(self._hub, info.name)
        publication.move_alias(self._hub, Reference(info.name, info.version, writes=True), alias, known=known)

    def versions_since(self, cursor: str | None) -> NewVersions:
        """Return the newest commits of the models of the token's account and organizations.

        Raises:
            HoneError: ``registry-denied``: there is no token; and as in ``resolve``.
        """
        return versions.list_arrivals(self._hub, cursor)

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
        """Commit a winner onto the branch of ``owner/name@branch`` (``main`` by default); the tag is moved last.

        Raises:
            HoneError: ``recipe-invalid``, ``registry-moved``: the author has changed the model since it was pulled;
                ``registry-denied``, ``registry-full``, ``registry-limited``, ``registry-unreachable``,
                ``registry-offline``, ``toolchain-unknown`` or ``evidence-incomplete``.
        """
        check_names(self, name=name, alias=alias)
        return self._publish(_submit(winner, name, tags, metrics), alias, before, proposes=False)

    def propose(self, winner: ProvenWinner, **named: Any) -> Publication:
        """Open a pull request with a winner; an alias is moved only when this is called again after the merge.

        Raises:
            HoneError: As in ``publish``.
        """
        check_names(self, name=named["name"], alias=named["alias"])
        submission = _submit(winner, named["name"], named["tags"], named.get("metrics"))
        return self._publish(submission, named["alias"], named.get("before"), proposes=True)

    def _publish(
        self, submission: Submission, alias: str | None, before: Mapping[str, str] | None, *, proposes: bool
    ) -> Publication:
        hub, name, note = self._hub, submission.target.name, ""
        with lock_publication(hub.endpoint, name):
            head = publication.open_target(hub, submission)
            sha = publication.find_published(hub, submission, head)
            if sha is None and proposes:
                sha, number = publication.propose(hub, submission, head)
                later = f"; after it is merged, `kedro-hone run --pipelines publish` moves {alias!r}"
                note = f"It is the pull request {hub.endpoint}/{name}/discussions/{number}{later if alias else ''}."
            elif sha is None:
                sha = str(publication.commit(hub, submission, head, proposes=False).oid)
            if alias is not None and not note:
                note = self._point(submission, alias, sha, before)
        return Publication(uri=Reference(name, sha).uri, version=sha, alias=None if note else alias, note=note)

    def _point(self, submission: Submission, alias: str, sha: str, before: Mapping[str, str] | None) -> str:
        """Move an alias to a commit unless others moved it since; return how they did, or an empty text."""
        hub, name = self._hub, submission.target.name
        now = versions.read_aliases(hub, name)
        if now.get(alias) == sha:
            return ""
        ours = publication.find_given(hub, name, now.get(alias), submission.tags.get(PULL))
        note = find_move(alias, before=before, now=now, ours=ours)
        if not note:
            publication.move_alias(hub, Reference(name, sha, writes=True), alias, known=alias in now)
        return note


def _submit(
    winner: ProvenWinner, name: str, tags: Mapping[str, str], metrics: Mapping[str, float] | None
) -> Submission:
    target = references.read_target(name)
    key = derive_key(winner, name=target.name, tags=tags)
    return Submission(winner, target, {KEY: key, **tags}, metrics or {})
