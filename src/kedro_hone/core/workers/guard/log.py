"""The output of a worker, in a file of limited size. The standard library only."""

from __future__ import annotations

import os


class ClippedLog:
    """Stores the first and the last part of a worker's output, each up to half of the limit in bytes.

    The first part is written at once, the last part at the end.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.half = max(1, limit // 2)
        self.head_left = self.half
        self.tail = bytearray()
        self.left_out = 0
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def add(self, data: bytes) -> None:
        """Add output."""
        head, rest = data[: self.head_left], data[self.head_left :]
        self.head_left -= len(head)
        self.left_out += len(head) - self._write(head)
        self.tail += rest
        excess = max(0, len(self.tail) - self.half)
        self.left_out += excess
        del self.tail[:excess]

    def finish(self) -> None:
        """Write the last half."""
        if self.left_out:
            self._write(f"\n[{self.left_out} bytes left out]\n".encode())
        self.left_out += len(self.tail) - self._write(bytes(self.tail))
        os.close(self.fd)

    def _write(self, data: bytes) -> int:
        try:
            return os.write(self.fd, data)
        except OSError:  # a full disk costs the log, never the drain: a worker must not block on a full pipe
            return 0
