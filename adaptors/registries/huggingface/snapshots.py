"""Commits of repositories with their files: looked up, downloaded into huggingface_hub's cache, put into a folder."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from huggingface_hub import constants, get_cached_repo_tree, hf_hub_download, snapshot_download
from pydantic import Field, field_validator

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Value
from hone_runtime.values.digest import digest_json
from hone_runtime.values.trees import require_room
from kedro_hone.adaptors.registries.huggingface import connection
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.files import TAGS, is_authors
from kedro_hone.adaptors.registries.huggingface.guard import Bar, HostileReplyError, count_to
from kedro_hone.adaptors.registries.huggingface.references import COMMIT, Reference
from kedro_hone.sources.files import make_corrupt


class File(Value):
    """A file of a commit: its git id, its size, and its digest if it is a large file."""

    blob: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    size: int = Field(ge=0)
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")

    @property
    def etag(self) -> str:
        """Its name in the cache of huggingface_hub."""
        return self.sha256 or self.blob


class Snapshot(Value):
    """A commit of a repository with its files, by path."""

    name: str
    sha: str = Field(pattern=COMMIT.pattern)
    files: dict[str, File]

    @field_validator("files")
    @classmethod
    def _check_paths(cls, files: dict[str, File]) -> dict[str, File]:
        """Refuse paths that git does not accept: a hostile server could write outside the folder."""
        for path in files:
            if {"", ".", ".."} & {*path.split("/")} or "\0" in path:
                raise ValueError(f"{path[:200]!r} is not a path in a repository")
        return files

    @property
    def reference(self) -> Reference:
        """The repository, and the commit as its revision."""
        return Reference(self.name, self.sha)

    def digest_authors(self, *, without: tuple[str, ...] = ()) -> str:
        """Return the digest of the author's files, without those of publications."""
        theirs = (path for path in self.files if is_authors(path) and path not in without)
        return digest_json({path: self.files[path].blob for path in theirs})


def find_snapshot(hub: Connection, reference: Reference) -> Snapshot:
    """Return the commit of a revision with its files, by one request; offline, from the cache.

    Offline, a branch or tag is the commit that it pointed to at its last pull. A commit id is that commit, or an error.

    Raises:
        HoneError: ``model-unknown``, ``version-unknown``, ``registry-denied``, ``registry-limited``,
            ``registry-unreachable`` or ``registry-offline``.
    """
    name, revision = reference.name, reference.revision
    if hub.offline:
        return hub.request(partial(_find_cached, hub, name, revision), reference)
    info = hub.request(lambda: hub.api.model_info(name, revision=revision, files_metadata=True, timeout=10), reference)
    if COMMIT.fullmatch(revision) and info.sha != revision:
        raise hub.explain(ValueError(f"it has the commit {info.sha!r:.60} instead of {revision}"), reference)
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


def record_revision(hub: Connection, reference: Reference) -> None:
    """Make huggingface_hub record the commit of a branch or tag, for use offline."""
    if not hub.offline and not COMMIT.fullmatch(reference.revision):
        hub.request(partial(hub.api.resolve_revision, reference.name, revision=reference.revision), reference)


def check_room(hub: Connection, snapshot: Snapshot, paths: tuple[str, ...]) -> None:
    """Check that the files of a commit that are missing in the cache fit on its disk, before downloading any.

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
    """Check that a commit has all files in its ``hone.json``, and at least one file.

    Raises:
        HoneError: ``model-corrupt``, or ``model-unsupported``: the repository has no model.
    """
    if missing := sorted(set(paths) - snapshot.files.keys()):
        raise make_corrupt(Path(snapshot.name), f"{TAGS} names {missing[0]}, which is not there")
    if not paths:
        raise HoneError(
            "model-unsupported",
            f"{snapshot.reference.uri} contains no model.",
            why=f"It contains: {', '.join(sorted(snapshot.files)[:8]) or 'nothing'}.",
            hint="Name a repository, or a revision of it, with a model's files.",
        )


def fetch(hub: Connection, snapshot: Snapshot, paths: tuple[str, ...]) -> dict[str, Path]:
    """Download files of a commit into the cache, and return the path of each: a file, not a link.

    Raises:
        HoneError: As in ``find_snapshot``; ``store-full`` or ``store-read-only``: the cache cannot be written.
    """
    found = {path: fetch_file(hub, snapshot, path) for path in paths}
    if paths and not hub.offline:
        # huggingface_hub caches the listing; later calls read from it offline which files exist.
        wanted: dict[str, Any] = {"allow_patterns": [escape(path) for path in paths], "tqdm_class": Bar}
        wanted |= {"revision": snapshot.sha, "endpoint": hub.endpoint}
        hub.request(lambda: snapshot_download(snapshot.name, **wanted), snapshot.reference)
    return found


def fetch_file(hub: Connection, snapshot: Snapshot, path: str) -> Path:
    """Download one file into the cache, for ``fetch``: in our own thread, which snapshot_download would not use."""
    name, place = snapshot.name, snapshot.reference
    blobs = hub.find_folder(name) / "blobs"

    def download() -> str:
        bar = count_to(snapshot.files[path].size)
        return str(hf_hub_download(name, path, revision=snapshot.sha, endpoint=hub.endpoint, tqdm_class=bar))

    def measure() -> int:
        return sum(map(_measure, blobs.glob("*")))

    link = Path(hub.request(download, place, tries=2, patience=connection.STALL_SECONDS, progress=measure))
    file = link.resolve()
    if not file.is_relative_to(Path(constants.HF_HUB_CACHE).expanduser().resolve()):
        link.unlink()
        raise hub.explain(HostileReplyError(f"{path} is a link out of the cache."), place)
    return file


def _measure(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def place_files(found: dict[str, Path], folder: Path) -> None:
    """Put files into a folder by hard links, or by copies if links are impossible.

    Only the user's own files are linked: a later step may make them read-only. That is correct for the cache, too,
    since no file in it is changed after it was written.
    """
    for name, path in found.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if path.stat().st_uid != os.geteuid():
                raise PermissionError(path)
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
