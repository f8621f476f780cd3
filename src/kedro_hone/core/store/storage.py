"""Where a store keeps its sealed folders and JSON files: a local folder, which caches a remote one if there is one.

Everything is renamed into place inside one file system, after its bytes have reached the disk. So two processes may
work at once, and a reader never sees an incomplete file. With a remote store, sealed folders are looked up here first
and uploaded when they are made; JSON files are only read and written there.

Names count from the store's root, such as ``objects/<hex>`` or ``values/<key>.json``.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kedro_hone.core.store.disk import Temporary, dump_json, explain_disk_errors, sync_path, sync_tree, write_file
from kedro_hone.core.store.manifest import FILES, Manifest, UnsealableError, copy_tree, is_unharmed, read_sealed
from kedro_hone.core.store.remote import Remote
from kedro_hone.core.values.base import Json


class Storage:
    """The files of a store. Opening it removes what killed processes left in ``tmp``.

    Raises:
        HoneError: ``store-full`` or ``store-read-only``, from here and from every method that writes;
            ``store-unreachable``, where there is a remote store.
    """

    def __init__(self, root: Path, remote: Remote | None = None) -> None:
        self.root, self._remote = root.absolute(), remote
        with explain_disk_errors(self.root):
            for name in ("objects", "steps", "values", "trees"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            self._temporary = Temporary(self.root / "tmp")

    @contextmanager
    def make_folder(self) -> Iterator[Path]:
        """Make an empty folder on the store's file system, removed at the end unless it was moved away."""
        with ExitStack() as stack:
            with explain_disk_errors(self.root):  # and not what the caller does inside
                folder = stack.enter_context(self._temporary.make_folder())
            yield folder

    def bring(self, folder: Path, stage: Path) -> None:
        """Move a folder of ``make_folder`` to the files of a stage; copy one from elsewhere.

        Raises:
            UnsealableError: Something in it is neither a file nor a folder, or leads out.
        """
        source = folder.absolute()
        if not source.is_dir():
            raise UnsealableError(f"{folder} is no folder")
        with explain_disk_errors(self.root):
            if self._temporary.root in source.parents and not any(path.is_symlink() for path in source.rglob("*")):
                source.chmod(0o755)  # or a folder that a worker made read-only could not be moved
                source.rename(stage / FILES)
            else:
                # What is sealed already never changes, so a second artifact of the same files shares them.
                copy_tree(source, stage / FILES, share=self.root / "objects" in source.parents)

    def keep(self, stage: Path, name: str) -> None:
        """Move a complete sealed folder to its place, unless the same one is there and intact; upload it."""
        self._place(stage, self.root / name)
        if self._remote is not None:
            self._remote.push(self.root / name, name)

    def find(self, name: str) -> Manifest | None:
        """Return the manifest of a sealed folder, downloaded if need be; None if there is no sound one of this name."""
        manifest = read_sealed(self.root / name)
        if manifest is not None or self._remote is None:
            return manifest
        with self.make_folder() as stage:
            if self._remote.pull(name, stage):
                self._place(stage, self.root / name)
        return read_sealed(self.root / name)

    def read(self, name: str) -> Json | None:
        """Return the content of a JSON file; None if there is none or it is damaged (it is removed then)."""
        try:
            content = self._remote.read(name) if self._remote else (self.root / name).read_bytes()
            return None if content is None else json.loads(content)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):  # cut short, not even text, or nested too deeply
            self.remove(name)
            return None

    def write(self, name: str, value: Json) -> None:
        """Write a JSON file at once, in place of what was there."""
        if self._remote is not None:
            self._remote.write(name, dump_json(value))
            return
        with explain_disk_errors(self.root), self._temporary.make_folder() as folder:
            write_file(self.root / name, dump_json(value), stage=folder)

    def remove(self, name: str) -> None:
        """Remove a JSON file."""
        if self._remote is not None:
            self._remote.remove(name)
            return
        with explain_disk_errors(self.root):
            (self.root / name).unlink(missing_ok=True)

    def _place(self, stage: Path, place: Path) -> None:
        with explain_disk_errors(self.root):
            sync_tree(stage)
            while True:
                try:
                    stage.rename(place)
                except OSError as error:
                    if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                        raise
                else:
                    sync_path(place.parent)
                    return
                if is_unharmed(place):
                    return
                with self._temporary.make_folder() as bin_, suppress(FileNotFoundError):
                    place.rename(bin_ / "damaged")
