"""Atomic writes to one disk: a kill, a full disk or a second process never leaves an incomplete file."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json
from hone_runtime.values.manifest import FILES, UnsealableError, copy_tree, read_sealed

_LOG = open_logger(__name__)


def find_disk_error(error: OSError, root: Path) -> HoneError | None:
    """Return the error for the user if the disk of this folder is full or read-only; otherwise None.

    If the system names a file elsewhere, its own folder is reported; of two files, the second was written.
    """
    file = error.filename if error.filename2 is None else error.filename2
    named = Path(file).absolute() if isinstance(file, str) else root
    root = root if named.is_relative_to(root.absolute()) else named.parent
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        slug, what = "store-full", f"The disk that holds {root} is full."
        hint = "Free some space there and run again: every step that was finished is kept."
    elif error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        slug, what = "store-read-only", f"The folder {root} cannot be written."
        hint = "Give this user the right to write there, or choose another folder."
    else:
        return None
    return HoneError(slug, what, why=str(error), hint=hint)


@contextmanager
def explain_disk_errors(root: Path) -> Iterator[None]:
    """Raise the error for the user if writing to this folder fails because of a full or read-only disk.

    Raises:
        HoneError: ``store-full`` or ``store-read-only``.
    """
    try:
        yield
    except OSError as error:
        if known := find_disk_error(error, root):
            raise known from error
        raise


def write_file(path: Path, content: bytes, *, stage: Path | None = None, mode: int | None = None) -> None:
    """Write a file atomically: a reader, also after a kill or a crash of the machine, sees the old or the new file.

    It is first written in ``stage``, a folder on the same disk; without one, in the same folder. A link is
    replaced by a file, whose permissions are ``mode``, or those of a new file.
    """
    temporary = (stage or path.parent) / f".{path.name}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file that processes and machines share, in one write: lines never mix.

    On one machine, a write always appends at the end of the file. On a network file system only the lock ensures this:
    a machine learns the file's size when it takes the lock. A line that was truncated before, by a kill or a full disk,
    does not corrupt another one.

    Raises:
        OSError: It cannot be written completely: then nothing of it remains in the file.
    """
    with path.open("a+b", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - 1))
        torn = stream.read(1) not in {b"", b"\n"}
        data = b"\n" * torn + f"{line}\n".encode()
        if stream.write(data) != len(data):
            stream.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def dump_json(value: Json) -> bytes:
    """Return the JSON of a value in the format of every file of a store."""
    return json.dumps(value, indent=1, sort_keys=True).encode()


def remove_tree(folder: Path) -> None:
    """Remove a folder and everything in it, also read-only folders, and also while another process removes it."""
    while os.path.lexists(folder):
        try:
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink()
                return
            for path, _, _ in os.walk(folder):
                Path(path).chmod(0o700)
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue  # the other process removed it first; look again


class Disk:
    """The local folder of a store. Names, such as ``values/<key>.json``, are relative to it.

    A file or folder is completed and written to the disk in a folder of ``tmp`` before it is renamed. The process that
    works in such a folder has a lock on it, which the kernel releases when the process ends. A folder without a lock
    was left by a killed process, and is removed when the next process opens the store.

    Raises:
        HoneError: ``store-full`` or ``store-read-only``, from here and from every method that writes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._temporary = self.root / "tmp"
        with explain_disk_errors(self.root):
            for name in ("objects", "steps", "values", "trees", "tmp"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            for entry in self._temporary.iterdir():
                try:
                    _remove_leftover(entry)
                except OSError as error:  # this only costs space; the next write reports the disk's problem
                    _LOG.warning("The leftover %s cannot be removed: %s", entry, error)

    @contextmanager
    def make_folder(self) -> Iterator[Path]:
        """Make an empty folder, removed at the end unless it was moved away."""
        with explain_disk_errors(self.root):  # but not errors of the caller's block
            folder, handle = self._claim_folder()
        try:
            yield folder
        finally:
            os.close(handle)
            remove_tree(folder)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if absent."""
        with suppress(FileNotFoundError):
            return (self.root / name).read_bytes()
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing any earlier one."""
        with explain_disk_errors(self.root), self.make_folder() as folder:
            write_file(self.root / name, content, stage=folder)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with explain_disk_errors(self.root):
            (self.root / name).unlink(missing_ok=True)

    def bring(self, folder: Path, stage: Path) -> None:
        """Move a folder of ``make_folder`` to the files of a stage; copy one from elsewhere.

        Raises:
            UnsealableError: Something in it is neither a file nor a folder, or is a link that leads out of it.
        """
        source = folder.absolute()
        if not source.is_dir():
            raise UnsealableError(f"{folder} is not a folder")
        with explain_disk_errors(self.root):
            if self._temporary in source.parents and not any(path.is_symlink() for path in source.rglob("*")):
                source.chmod(0o755)  # or a folder that a worker made read-only could not be moved
                source.rename(stage / FILES)
            else:
                # Sealed files never change, so a second artifact with the same files shares them.
                copy_tree(source, stage / FILES, share=self.root / "objects" in source.parents)

    def place(self, stage: Path, name: str) -> None:
        """Move a complete sealed folder to its place, unless the same one is there and every byte of it is intact."""
        place = self.root / name
        with explain_disk_errors(self.root):
            for path in (*stage.rglob("*"), stage):
                _sync(path)
            while True:
                try:
                    stage.rename(place)
                except OSError as error:
                    if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                        raise
                else:
                    _sync(place.parent)
                    return
                if read_sealed(place):
                    return
                with self.make_folder() as bin_, suppress(FileNotFoundError):
                    place.rename(bin_ / "damaged")

    def _claim_folder(self) -> tuple[Path, int]:
        """Make a folder and lock it; try again if a process that opens the store removed it first."""
        while True:
            folder = self._temporary / secrets.token_hex(8)
            folder.mkdir()
            with suppress(FileNotFoundError):
                handle = os.open(folder, os.O_RDONLY)
                fcntl.flock(handle, fcntl.LOCK_EX)
                if folder.exists():
                    return folder, handle
                os.close(handle)


def _remove_leftover(entry: Path) -> None:
    with suppress(BlockingIOError, FileNotFoundError):  # a process works in it, or another process removed it
        handle = os.open(entry, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(entry)
        finally:
            os.close(handle)


def _sync(path: Path) -> None:
    """Wait until a file, or the list of names of a folder, is written to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
