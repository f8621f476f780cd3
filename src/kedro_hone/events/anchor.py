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
        self._held: tuple[sqlite3.Connection, tuple[int, int]] | None = None

    def renew(self) -> None:
        """Keep the file open that is at the path now; do nothing where it cannot be, which its next user finds out.

        A file that was replaced is let go, whose log SQLite leaves alone then: it is its successor's.
        """
        with suppress(OSError, sqlite3.Error):
            found = self._path.stat()
            place = (found.st_dev, found.st_ino)
            if self._held and self._held[1] == place:
                return
            self.close()
            connection = sqlite3.connect(self._path)
            self._held = connection, place
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # until it is read it is not open

    def close(self) -> None:
        """Let go of the file."""
        held, self._held = self._held, None
        if held:
            with suppress(sqlite3.Error):
                held[0].close()
