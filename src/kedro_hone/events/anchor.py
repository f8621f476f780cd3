"""A connection that does nothing but keep the queue's file open."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path


class Anchor:
    """Keeps a SQLite file open between transactions whose connections are closed.

    When the last connection to a file closes, SQLite writes the whole log into the file, syncs both and removes the log
    (https://sqlite.org/wal.html, section 6). That takes longer than the commit itself, and while another connection is
    open it is done for a thousand pages at once. One thread uses an anchor.

    Args:
        path: The file. It need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # the device and the inode of what it is connected to

    def renew(self) -> None:
        """Keep the file open that is at the path now; do nothing where it cannot be, which its next user finds out.

        A file that was replaced is let go, whose log SQLite leaves alone then: it is its successor's.
        """
        with suppress(OSError, sqlite3.Error):
            found = self._path.stat()
            if self._file == (found.st_dev, found.st_ino):
                return
            self.close()
            self._connection = sqlite3.connect(self._path, timeout=0.0)  # who needs it waits for a lock, and not this
            self._connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # SQLite opens the log only now
            self._file = (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection, self._file = self._connection, None, None
        if connection:
            with suppress(sqlite3.Error):
                connection.close()
