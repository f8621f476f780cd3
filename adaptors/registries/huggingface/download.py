"""Files of a commit: into huggingface_hub's cache, which is the user's, and from there into a folder.

``huggingface_hub`` 2.4 tries again within a process, but begins a file anew in the next one, and leaves what a killed
process has received. Here such a rest is continued, and compared with the file's digest; others of it are removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Final

from huggingface_hub import hf_hub_download, hf_hub_url, snapshot_download
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import WeakFileLock, build_hf_headers

from kedro_hone import __version__
from kedro_hone.adaptors.registries.huggingface import connection
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.explaining import Place
from kedro_hone.adaptors.registries.huggingface.guarding import Silent, count_to
from kedro_hone.adaptors.registries.huggingface.versions import File, Snapshot

_PARTIAL: Final = "incomplete"


def fetch(hub: Connection, snapshot: Snapshot, paths: tuple[str, ...]) -> dict[str, Path]:
    """Bring files of a commit into the cache, and return where each is: a file, and no link.

    Raises:
        HoneError: As ``find_snapshot``; ``store-full`` or ``store-read-only``: the cache cannot be written.
    """
    place = Place(snapshot.name, snapshot.sha)
    # The listing is kept by it, too: it tells without the Hub which files there are, and whether all are here.
    patterns = [escape(path) for path in paths]
    arguments = {"revision": snapshot.sha, "endpoint": hub.endpoint, "allow_patterns": patterns, "tqdm_class": Silent}
    if hub.offline:
        hub.ask(lambda: snapshot_download(snapshot.name, local_files_only=True, **arguments), place)
    found: dict[str, Path] = {}
    for path in paths:
        found[path] = _fetch_file(hub, snapshot, path)
    if not hub.offline:
        hub.ask(lambda: snapshot_download(snapshot.name, **arguments), place)
    return found


def _fetch_file(hub: Connection, snapshot: Snapshot, path: str) -> Path:
    place = Place(snapshot.name, snapshot.sha)
    blobs = hub.find_folder(snapshot.name) / "blobs"

    def download() -> str:
        _finish(hub, snapshot, path)
        counted = count_to(snapshot.files[path].size)
        return str(
            hf_hub_download(snapshot.name, path, revision=snapshot.sha, endpoint=hub.endpoint, tqdm_class=counted)
        )

    def measure() -> int:
        return sum(_measure(one) for one in blobs.glob("*")) if blobs.is_dir() else 0

    try:
        where = connection.run_bounded(download, patience=connection.STALL_SECONDS, progress=measure)
    except Exception as error:
        raise hub.explain(error, place) from error
    return Path(where).resolve()


def _measure(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _finish(hub: Connection, snapshot: Snapshot, path: str) -> None:
    """Continue a large file that a killed process has received a part of, and remove what is left of others."""
    file, folder = snapshot.files[path], hub.find_folder(snapshot.name)
    blob = folder / "blobs" / file.etag
    if not file.sha256 or not list(blob.parent.glob(f"{blob.name}*.{_PARTIAL}")):
        return
    lock = folder.parent / ".locks" / folder.name / f"{blob.name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):  # who downloads it now holds the lock, and its part is not to be touched
        rests = sorted(blob.parent.glob(f"{blob.name}*.{_PARTIAL}"), key=_measure)
        if rests and not blob.exists():
            own = blob.with_name(f"{blob.name}.{uuid.uuid4().hex[:8]}.{_PARTIAL}")
            rests.pop().rename(own)
            try:
                _continue(hub, snapshot, path, own)
                if _is_whole(own, file):
                    own.replace(blob)
            finally:
                if not blob.exists() and own.exists() and _measure(own) >= file.size:
                    own.unlink()  # it is not the file: huggingface_hub begins anew
        for rest in rests:
            rest.unlink(missing_ok=True)


def _continue(hub: Connection, snapshot: Snapshot, path: str, partial: Path) -> None:
    file, start = snapshot.files[path], _measure(partial)
    if start >= file.size:
        return
    headers = build_hf_headers(library_name="kedro-hone", library_version=__version__)
    url = hf_hub_url(snapshot.name, path, revision=snapshot.sha, endpoint=hub.endpoint)
    with partial.open("ab") as stream:
        http_get(
            url, stream, resume_size=start, headers=headers, expected_size=file.size, tqdm_class=count_to(file.size)
        )


def _is_whole(path: Path, file: File) -> bool:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def place_files(found: dict[str, Path], folder: Path) -> None:
    """Put files into a folder by hard links, or by copies where that is impossible.

    A link is made of the user's own files only: whoever gets the folder may make them read-only, which is right for the
    cache, too, where no file is changed after it was written.
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
