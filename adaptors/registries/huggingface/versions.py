"""Versions on the Hub are commits: named by a URI, looked up, and told apart into sources and winners of ours.

A winner's commit has ``hone.json``, with its tags and the digest of the author's files that were there. Where these are
others by now, the author has gone on, and the commit is a source again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from huggingface_hub import get_cached_repo_tree, hf_hub_download
from huggingface_hub.errors import CachedRepoTreeNotFoundError
from pydantic import Field, field_validator

from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.explaining import Place, explain_offline
from kedro_hone.adaptors.registries.huggingface.files import TAGS, is_authors
from kedro_hone.adaptors.registries.huggingface.references import COMMIT, Reference, read_uri
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.contract.skipping import report_skipped
from kedro_hone.core.contract.tags import SOURCE
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.regular import LARGEST_FILE, read_regular
from kedro_hone.core.values.trees import require_room
from kedro_hone.sources.files import make_corrupt

_UNREACHABLE: Final = "registry-unreachable"
_OF_ONE: Final = frozenset({"model-unknown", "version-unknown", "registry-denied", "model-corrupt", _UNREACHABLE})
"""What may be wrong with one repository of a list; all else is of the Hub, or of this machine."""


class File(Value):
    """A file of a commit: git's id of it, its size, and its digest where it is a large one."""

    blob: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    size: int = Field(ge=0)
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")

    @property
    def etag(self) -> str:
        """The name of it in the cache of huggingface_hub."""
        return self.sha256 or self.blob


class Snapshot(Value):
    """A commit of a repository with its files by their path."""

    name: str
    sha: str = Field(pattern=COMMIT.pattern)
    files: dict[str, File]

    @field_validator("files")
    @classmethod
    def _check_paths(cls, files: dict[str, File]) -> dict[str, File]:
        """Refuse what git takes as no path: a server that says so would write outside the folder."""
        for path in files:
            if {"", ".", ".."} & {*path.split("/")} or "\0" in path:
                raise ValueError(f"{path[:200]!r} is no path in a repository")
        return files

    @property
    def uri(self) -> str:
        """The pinned URI."""
        return f"hf://{self.name}@{self.sha}"

    def digest_authors(self, *, without: tuple[str, ...] = ()) -> str:
        """Return the digest of the files that are the author's, and no publication's."""
        theirs = (path for path in self.files if is_authors(path) and path not in without)
        return digest_json({path: self.files[path].blob for path in theirs})


class Published(Value):
    """What ``hone.json`` says of a winner.

    Attributes:
        files: All files of it, as they were signed, where they are.
        added: Those that the author has elsewhere, such as a tokenizer's, and that the publication brought here.
        authors: The digest of the author's files next to it.
    """

    tags: dict[str, str]
    files: tuple[str, ...]
    added: tuple[str, ...] = ()
    authors: str


def find_snapshot(hub: Connection, reference: Reference) -> Snapshot:
    """Return the commit of a revision with its files, by one request; of the cache where the Hub is off limits.

    A commit that is named by its id is that commit, or an error.

    Raises:
        HoneError: ``model-unknown``, ``version-unknown``, ``registry-denied``, ``registry-limited``,
            ``registry-unreachable`` or ``registry-offline``.
    """
    place = Place(*reference)
    if hub.offline:
        return _find_cached(hub, reference)
    name, revision = reference
    info = hub.ask(lambda: hub.api.model_info(name, revision=revision, files_metadata=True, timeout=10), place)
    if COMMIT.fullmatch(revision) and info.sha != revision:
        raise hub.explain(ValueError(f"it has the commit {info.sha!r:.60} in the place of {revision}"), place)
    try:
        files = {
            one.rfilename: File(blob=one.blob_id, size=one.size, sha256=one.lfs.sha256 if one.lfs else "")
            for one in info.siblings
        }
        return Snapshot(name=name, sha=info.sha, files=files)
    except (TypeError, ValueError, AttributeError) as error:
        raise hub.explain(error, place) from error


def _find_cached(hub: Connection, reference: Reference) -> Snapshot:
    """Return a commit as the cache knows it: that which a branch or tag was at when it was last pulled."""
    name, revision = reference
    try:
        sha = revision
        if not COMMIT.fullmatch(revision):
            sha = (hub.find_folder(name) / "refs" / revision).read_text(encoding="utf-8").strip()
        tree = get_cached_repo_tree(name, revision=sha)
    except (OSError, ValueError, CachedRepoTreeNotFoundError) as error:
        raise explain_offline(Place(name, revision)) from error
    files = {one.path: File(blob=one.blob_id, size=one.size, sha256=one.lfs.sha256 if one.lfs else "") for one in tree}
    return Snapshot(name=name, sha=sha, files=files)


def find_source(hub: Connection, uri: str) -> str:
    """Return the URI of the commit that the winner at the end of a branch was made from; else the URI itself."""
    reference = read_uri(uri)
    if COMMIT.fullmatch(reference.revision) or reference.revision.startswith("refs/"):
        return uri
    published = read_published(hub, find_snapshot(hub, reference))
    source = "" if published is None else published.tags.get(SOURCE, "")
    if not source.startswith(f"hf://{reference.name}@"):
        return uri
    is_tag = not hub.offline and reference.revision in read_aliases(hub, reference.name)
    return uri if is_tag else source


def keep_ref(hub: Connection, reference: Reference, sha: str) -> None:
    """Note in the cache which commit a branch or tag was at, as huggingface_hub does, for use without the Hub."""
    if COMMIT.fullmatch(reference.revision):
        return
    place = hub.find_folder(reference.name) / "refs" / reference.revision
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f"{place.name}.{os.getpid()}")
        partial.write_text(sha, encoding="utf-8")
        partial.replace(place)
    except OSError as error:
        raise hub.explain(error, Place(*reference)) from error


def read_published(hub: Connection, snapshot: Snapshot, *, stale: bool = False) -> Published | None:
    """Return what ``hone.json`` says; None where there is none, or the author has changed the model since.

    The file is kept in the cache. With ``stale`` it is returned also where the author has gone on.

    Raises:
        HoneError: ``model-corrupt``: the file cannot be read.
    """
    if TAGS not in snapshot.files:
        return None
    if snapshot.files[TAGS].size > LARGEST_FILE:
        raise make_corrupt(Path(TAGS), f"it is larger than {LARGEST_FILE >> 20} MiB")
    name, sha = snapshot.name, snapshot.sha
    call = _name_download(hub, name, TAGS, sha)
    path = Path(hub.ask(call, Place(name, sha)))
    try:
        said = Published.model_validate_json(read_regular(path.resolve()))
    except (OSError, ValueError) as error:
        raise make_corrupt(Path(TAGS), f"it says nothing of a winner ({type(error).__name__})") from error
    return said if stale or said.authors == snapshot.digest_authors(without=said.added) else None


def _name_download(hub: Connection, name: str, path: str, sha: str) -> Callable[[], Any]:
    return lambda: hf_hub_download(name, path, revision=sha, endpoint=hub.endpoint)


def describe(hub: Connection, snapshot: Snapshot, published: Published | None) -> VersionInfo:
    """Return what is known of a commit; the tags that point to a winner are looked up."""
    aliases = () if published is None or hub.offline else find_aliases(hub, snapshot)
    tags = {} if published is None else published.tags
    return VersionInfo(uri=snapshot.uri, name=snapshot.name, version=snapshot.sha, aliases=aliases, tags=tags)


def find_aliases(hub: Connection, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the git tags that point to a commit."""
    known = read_aliases(hub, snapshot.name)
    return tuple(sorted(alias for alias, sha in known.items() if sha == snapshot.sha))


def read_aliases(hub: Connection, name: str) -> dict[str, str]:
    """Return the commit that each git tag of a repository points to; none where there is no such repository."""
    try:
        refs = hub.ask(lambda: hub.api.list_repo_refs(name), Place(name))
    except HoneError as error:
        if error.slug != "model-unknown":
            raise
        return {}
    return {tag.name: tag.target_commit for tag in refs.tags}


def list_arrivals(hub: Connection, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
    """Return the newest commit of each model of the token's account and organizations that is new, oldest first.

    The Hub has no list of all commits: of several commits between two calls only the last is seen. A repository that
    cannot be read, such as a gated one, is left out until it can be.
    """
    everywhere = Place("")
    who = hub.ask(hub.api.whoami, everywhere)
    seen: dict[str, str] = json.loads(cursor) if cursor else {}
    heads: dict[str, str] = {}
    found = []
    for owner in [who["name"], *(org["name"] for org in who.get("orgs") or ())]:
        for model in hub.ask(_list_models(hub, owner), everywhere):
            heads[model.id] = model.sha
            if seen.get(model.id) != model.sha:
                found.append(model)
    found.sort(key=lambda model: (model.last_modified, model.id))
    infos = []
    for model in found:
        try:
            snapshot = find_snapshot(hub, Reference(model.id, model.sha))
            info = describe(hub, snapshot, read_published(hub, snapshot))
            infos.append(info.model_copy(update={"created": model.last_modified.timestamp()}))
        except HoneError as error:
            if error.slug not in _OF_ONE:
                raise
            if error.slug == _UNREACHABLE:
                hub.ask(hub.api.whoami, everywhere)  # which fails where it is the Hub that does
            report_skipped(f"hf://{model.id}@{model.sha}", error)
            heads.pop(model.id)
            heads |= {model.id: seen[model.id]} if model.id in seen else {}
    return tuple(infos), json.dumps(heads, sort_keys=True)


def _list_models(hub: Connection, owner: str) -> Callable[[], list[Any]]:
    return lambda: list(hub.api.list_models(author=owner, sort="last_modified", full=True))


def check_room(hub: Connection, snapshot: Snapshot, paths: tuple[str, ...]) -> None:
    """Check that files of a commit which the cache lacks fit on its disk, before one of them is asked for.

    Raises:
        HoneError: ``store-full``.
    """
    folder = hub.find_folder(snapshot.name)
    lacking = {snapshot.files[path] for path in paths if not (folder / "blobs" / snapshot.files[path].etag).exists()}
    above = next((place for place in folder.parents if place.is_dir()), None)
    if hub.offline or above is None:
        return
    require_room(above, sum(file.size for file in lacking))


def check_present(snapshot: Snapshot, paths: tuple[str, ...]) -> None:
    """Check that a commit has all files that ``hone.json`` names, and at least one.

    Raises:
        HoneError: ``model-corrupt``, or ``model-unsupported``: the repository holds no model.
    """
    if missing := sorted(set(paths) - snapshot.files.keys()):
        raise make_corrupt(Path(snapshot.name), f"{TAGS} names {missing[0]}, which is not there")
    if not paths:
        raise HoneError(
            "model-unsupported",
            f"{snapshot.uri} holds no model.",
            why=f"It holds: {', '.join(sorted(snapshot.files)[:8]) or 'nothing'}.",
            hint="Name a repository, or a revision of it, with a model's files.",
        )
