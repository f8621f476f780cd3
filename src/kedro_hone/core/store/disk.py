"""Atomic writes: a full disk, a kill or a second process never leaves an incomplete file."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kedro_hone.core.errors import HoneError
from kedro_hone.core.machine.processes import is_alive, read_namespace, read_start
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.base import Json

_LOG = open_logger(__name__)

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FOREIGN_SECONDS: Final = 7 * 24 * 3600
"""How old a temporary folder from another PID namespace must be before it is taken for a leftover."""


@contextmanager
def explain_disk_errors(root: Path) -> Iterator[None]:
    """Raise ``store-full`` or ``store-read-only`` where writing to this folder meets a full or read-only disk.

    Raises:
        HoneError: One of these two.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise HoneError(
                "store-full",
                f"The disk that holds {root} is full.",
                why=str(error),
                hint="Free some space there and run again: every step that was finished is kept.",
            ) from error
        if error.errno in _READ_ONLY:
            raise HoneError(
                "store-read-only",
                f"The folder {root} cannot be written.",
                why=str(error),
                hint="Give this user the right to write there, or choose another folder.",
            ) from error
        raise


def write_file(path: Path, content: bytes, *, stage: Path | None = None) -> None:
    """Write a file in one go: a reader, also after a kill or a crash of the machine, sees the old one or the new one.

    Args:
        path: The file.
        content: All of it.
        stage: The folder on the same disk where it is written first; that of the file where None.

    Raises:
        OSError: It cannot be written.
    """
    temporary = (stage or path.parent) / f".{path.name}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def dump_json(value: Json) -> bytes:
    """Return the JSON of a value as every file of a store has it."""
    return json.dumps(value, indent=1, sort_keys=True).encode()


def sync_tree(folder: Path) -> None:
    """Return when every file and folder below a folder, itself included, has reached the disk.

    Raises:
        OSError: The disk failed.
    """
    for path in (*folder.rglob("*"), folder):
        sync_path(path)


def sync_path(path: Path) -> None:
    """Return when a file, or the list of names of a folder, has reached the disk.

    Raises:
        OSError: The disk failed.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it, also read-only folders, and also while another process removes it.

    Raises:
        OSError: It cannot be removed.
    """
    while os.path.lexists(folder):
        try:
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink()
                return
            for path, _, _ in os.walk(folder):
                Path(path).chmod(0o700)
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue  # the other process removed it first; see what is left


class Temporary:
    """A folder of temporary folders, each named after the process that made it.

    The name holds the process's number and start time, since numbers are given again, and its PID namespace, since
    another container's numbers mean nothing here. What dead processes left is removed at opening.

    Args:
        root: The folder; made when missing.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        for entry in root.iterdir():
            if _is_leftover(entry):
                try:
                    remove_tree(entry)
                except OSError as error:  # it only costs space; the next write reports the disk's problem
                    _LOG.warning("The leftover %s cannot be removed: %s", entry, error)

    @contextmanager
    def make_folder(self) -> Iterator[Path]:
        """Make an empty folder that is removed at the end, unless it was moved away.

        Raises:
            OSError: It cannot be made.
        """
        folder = self.root / f"{_name_process(os.getpid())}-{secrets.token_hex(4)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            remove_tree(folder)


def _name_process(pid: int) -> str:
    return f"{pid}-{read_start(pid)}-{read_namespace()}"


def _is_leftover(entry: Path) -> bool:
    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)-[0-9a-f]+", entry.name)
    if match is None:
        return False
    pid, start, namespace = (int(text) for text in match.groups())
    if namespace != read_namespace():
        try:
            return time.time() - entry.stat().st_mtime > _FOREIGN_SECONDS
        except FileNotFoundError:
            return False
    return not is_alive(pid, start)
