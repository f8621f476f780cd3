"""The Hugging Face Hub as a registry: ``hf://owner/name@revision``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kedro_hone.adaptors.registries.huggingface import publishing, references, versions
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.download import fetch, place_files
from kedro_hone.adaptors.registries.huggingface.explaining import Place
from kedro_hone.adaptors.registries.huggingface.files import choose_files, list_sources
from kedro_hone.adaptors.registries.huggingface.publishing import Order
from kedro_hone.adaptors.registries.locks import lock_publication
from kedro_hone.core.contract.aliases import PULL, find_move
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import Publication, VersionInfo, check_names
from kedro_hone.core.contract.tags import KEY, derive_key


class HuggingFaceRegistry:
    """The models of the Hub that the environment names, as ``huggingface_hub`` reads it; asked at the first use.

    A version is a commit. An alias is a git tag. A winner is a commit with the files of an MLflow model, the evidence,
    a model card, and ``hone.json`` with its tags, next to whatever the author keeps in the repository.
    """

    def __init__(self) -> None:
        self._hub = Connection()

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of ``hf://owner/name@revision``, pinned to the commit; of ``main`` without a revision.

        It is one request; of a winner the small file with its tags is read, too, and the tags that point to it.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``registry-denied``, ``registry-limited``,
                ``registry-unreachable``, ``registry-offline``; or ``registry-unknown``: it is no such URI.
        """
        snapshot = versions.find_snapshot(self._hub, references.read_uri(uri))
        return versions.describe(self._hub, snapshot, versions.read_published(self._hub, snapshot))

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Bring the files that the format needs into an empty folder, by way of huggingface_hub's cache.

        They are hard links to the cache's where that is possible, so that the disk holds them once.

        Raises:
            HoneError: As for ``resolve``; ``store-full`` or ``store-read-only``: the cache cannot be written.
            FileExistsError: The folder is not empty.
        """
        reference = references.read_uri(uri)
        snapshot = versions.find_snapshot(self._hub, reference)
        published = versions.read_published(self._hub, snapshot)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty")
        chosen = choose_files(list_sources(snapshot.files)) if published is None else published.files
        versions.check_present(snapshot, chosen)
        versions.check_room(self._hub, snapshot, chosen)
        place_files(fetch(self._hub, snapshot, chosen), folder)
        versions.keep_ref(self._hub, reference, snapshot.sha)
        return versions.describe(self._hub, snapshot, published)

    def find_source(self, uri: str) -> str:
        """Return the URI of the source that a branch means, whose newest commit is a winner of ours next to it.

        It is the commit that the winner was made from: the author's files are still the same. A tag or a commit that
        names a winner means that winner.

        Raises:
            HoneError: As for ``resolve``.
        """
        return versions.find_source(self._hub, uri)

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why the Hub refuses ``owner/name`` or ``owner/name@branch``, or a tag; empty where it takes both."""
        return references.find_problem(name=name, alias=alias)

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the commit that each git tag of a repository points to; none where there is no such repository."""
        return versions.read_aliases(self._hub, references.read_target(name).name)

    def name_version(self, name: str, version: str) -> str:
        """Return the URI of a version of a model."""
        return f"hf://{references.read_target(name).name}@{version}"

    def move_alias(self, uri: str, alias: str) -> None:
        """Let an alias, which is a git tag, point to a commit.

        Raises:
            HoneError: As ``resolve``; ``recipe-invalid``: the alias cannot be a tag; ``registry-denied``.
        """
        info = self.resolve(uri)
        check_names(self, name=info.name, alias=alias)
        known = alias in versions.read_aliases(self._hub, info.name)
        place = Place(info.name, info.version, writes=True)
        publishing.move_alias(self._hub, place, alias, info.version, known=known)

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return the newest commits of the models of the token's account and organizations, as the contract says.

        Raises:
            HoneError: ``registry-denied``: there is no token; and as ``resolve``.
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
        """Commit a winner onto the branch of ``owner/name@branch`` (``main`` if none is named); the tag is moved last.

        Raises:
            HoneError: ``recipe-invalid``, ``registry-moved``: the author has changed the model since it was pulled;
                ``registry-denied``, ``registry-full``, ``registry-limited``, ``registry-unreachable``,
                ``registry-offline``, ``toolchain-unknown`` or ``evidence-incomplete``.
        """
        order = self._make_order(winner, name, tags, alias=alias, metrics=metrics)
        return self._publish(order, alias, before, proposes=False)

    def propose(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
        before: Mapping[str, str] | None = None,
    ) -> Publication:
        """Open a pull request with a winner; no alias is moved until it was merged and this is called again.

        Raises:
            HoneError: As ``publish``.
        """
        order = self._make_order(winner, name, tags, alias=alias, metrics=metrics)
        return self._publish(order, alias, before, proposes=True)

    def _make_order(
        self,
        winner: ProvenWinner,
        name: str,
        tags: Mapping[str, str],
        *,
        alias: str | None,
        metrics: Mapping[str, float] | None,
    ) -> Order:
        check_names(self, name=name, alias=alias)
        target = references.read_target(name)
        key = derive_key(winner, name=target.name, tags=tags)
        return Order(winner, target, {KEY: key, **tags}, metrics or {})

    def _publish(
        self, order: Order, alias: str | None, before: Mapping[str, str] | None, *, proposes: bool
    ) -> Publication:
        hub, name = self._hub, order.target.name
        with lock_publication(hub.endpoint, name):
            head = publishing.open_target(hub, order)
            sha = publishing.find_published(hub, order, head)
            if sha is None and proposes:
                return self._propose(order, head, alias)
            if sha is None:
                publishing.check_parent(hub, order, head)
                sha = str(publishing.commit(hub, order, head, proposes=False).oid)
            note = "" if alias is None else self._point(order, alias, sha, before)
        return Publication(uri=f"hf://{name}@{sha}", version=sha, alias=None if note else alias, note=note)

    def _propose(self, order: Order, head: versions.Snapshot, alias: str | None) -> Publication:
        found = publishing.find_proposed(self._hub, order)
        if found is None:
            publishing.check_parent(self._hub, order, head)
            made = publishing.commit(self._hub, order, head, proposes=True)
            found = str(made.oid), int(made.pr_num)
        sha, number = found
        name = order.target.name
        later = f"; run `kedro run --pipelines publish` after it was merged, which moves {alias!r}" if alias else ""
        note = f"It is the pull request {self._hub.endpoint}/{name}/discussions/{number}{later}."
        return Publication(uri=f"hf://{name}@{sha}", version=sha, alias=None, note=note)

    def _point(self, order: Order, alias: str, sha: str, before: Mapping[str, str] | None) -> str:
        """Move an alias to a commit unless others moved it since; return how they did, or nothing."""
        hub, name = self._hub, order.target.name
        now = versions.read_aliases(hub, name)
        if now.get(alias) == sha:
            return ""
        ours = publishing.find_given(hub, name, now.get(alias), order.tags.get(PULL))
        note = find_move(alias, before=before, now=now, ours=ours)
        if not note:
            publishing.move_alias(hub, order.place, alias, sha, known=alias in now)
        return note
