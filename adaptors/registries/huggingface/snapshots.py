"""Commits of repositories with their files, on the Hub or in huggingface_hub's cache."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import get_cached_repo_tree
from pydantic import Field, field_validator

from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.files import TAGS, is_authors
from kedro_hone.adaptors.registries.huggingface.references import COMMIT, Reference
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.trees import require_room
from kedro_hone.sources.files import make_corrupt


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


def find_snapshot(hub: Connection, reference: Reference) -> Snapshot:
    """Return the commit of a revision with its files, by one request; offline, of the cache.

    Offline it is the commit that a branch or tag was at when it was last pulled. A commit that is named by its id is
    that commit, or an error.

    Raises:
        HoneError: ``model-unknown``, ``version-unknown``, ``registry-denied``, ``registry-limited``,
            ``registry-unreachable`` or ``registry-offline``.
    """
    name, revision = reference.name, reference.revision
    if hub.offline:
        return hub.ask(partial(_find_cached, hub, name, revision), reference)
    info = hub.ask(lambda: hub.api.model_info(name, revision=revision, files_metadata=True, timeout=10), reference)
    if COMMIT.fullmatch(revision) and info.sha != revision:
        raise hub.explain(ValueError(f"it has the commit {info.sha!r:.60} in the place of {revision}"), reference)
    try:
        return Snapshot(name=name, sha=info.sha, files={one.rfilename: _read_file(one) for one in info.siblings})
    except (TypeError, ValueError, AttributeError) as error:
        raise hub.explain(error, reference) from error


def _find_cached(hub: Connection, name: str, revision: str) -> Snapshot:
    resolved = hub.api.resolve_revision(name, revision=revision, local_files_only=True)
    tree = get_cached_repo_tree(name, revision=resolved)
    return Snapshot(name=name, sha=resolved.resolved, files={one.path: _read_file(one) for one in tree})


def _read_file(one: Any) -> File:
    return File(blob=one.blob_id, size=one.size, sha256=one.lfs.sha256 if one.lfs else "")


def keep_revision(hub: Connection, reference: Reference) -> None:
    """Let huggingface_hub note which commit a branch or tag is at, for use offline."""
    if not hub.offline and not COMMIT.fullmatch(reference.revision):
        hub.ask(partial(hub.api.resolve_revision, reference.name, revision=reference.revision), reference)


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
