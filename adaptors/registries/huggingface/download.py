"""Files of a commit: into huggingface_hub's cache, which is the user's, and from there into a folder."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download, snapshot_download

from kedro_hone.adaptors.registries.huggingface import connection
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.guard import Bar, HostileReplyError, count_to
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.huggingface.snapshots import Snapshot


def fetch(hub: Connection, snapshot: Snapshot, paths: tuple[str, ...]) -> dict[str, Path]:
    """Bring files of a commit into the cache, and return where each is: a file, and no link.

    Raises:
        HoneError: As ``find_snapshot``; ``store-full`` or ``store-read-only``: the cache cannot be written.
    """
    found = {path: fetch_file(hub, snapshot, path) for path in paths}
    if paths and not hub.offline:
        # It keeps the listing, by which later calls know without the Hub which files there are.
        wanted: dict[str, Any] = {"allow_patterns": [escape(path) for path in paths], "tqdm_class": Bar}
        wanted |= {"revision": snapshot.sha, "endpoint": hub.endpoint}
        hub.ask(lambda: snapshot_download(snapshot.name, **wanted), Reference(snapshot.name, snapshot.sha))
    return found


def fetch_file(hub: Connection, snapshot: Snapshot, path: str) -> Path:
    """Bring one file into the cache, as ``fetch`` does: in a thread of ours, which snapshot_download would not use."""
    name, place = snapshot.name, Reference(snapshot.name, snapshot.sha)
    blobs = hub.find_folder(name) / "blobs"

    def download() -> str:
        bar = count_to(snapshot.files[path].size)
        return str(hf_hub_download(name, path, revision=snapshot.sha, endpoint=hub.endpoint, tqdm_class=bar))

    def measure() -> int:
        return sum(map(_measure, blobs.glob("*")))

    link = Path(hub.ask(download, place, tries=2, patience=connection.STALL_SECONDS, progress=measure))
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
