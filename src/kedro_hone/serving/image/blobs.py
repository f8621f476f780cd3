"""A folder of blobs by their digests, from which layouts are written and images are pushed.

It is in the home folder of environments. A base image and a layer of packages are there once for all images.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_file
from kedro_hone.core.store.disk import explain_disk_errors
from kedro_hone.serving.image.descriptors import Descriptor, digest_bytes, format_json

_LEFT_SECONDS: Final = 86_400.0


class Blobs:
    """The blobs below one folder: ``sha256/<hex>``, and notes by their keys: ``notes/<hex>.json``.

    Raises:
        HoneError: ``store-full`` or ``store-read-only``, from every method that writes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        with explain_disk_errors(self.root):
            for name in ("sha256", "notes", "tmp"):
                (self.root / name).mkdir(parents=True, exist_ok=True)

    def locate(self, digest: str) -> Path:
        """Return the path of a blob, which need not exist."""
        return self.root / "sha256" / digest.removeprefix("sha256:")

    def has(self, descriptor: Descriptor) -> bool:
        """Return whether a blob is there with every byte; its use is noted."""
        path = self.locate(descriptor.digest)
        try:
            if path.stat().st_size != descriptor.size or digest_file(path) != descriptor.digest:
                return False
            os.utime(path)
        except OSError:
            return False
        return True

    def add(self, content: bytes, media_type: str) -> Descriptor:
        """Write some bytes, and return their descriptor."""
        digest = digest_bytes(content)
        with self.make_file() as path:
            path.write_bytes(content)
            self.place(path, digest)
        return Descriptor(media_type=media_type, digest=digest, size=len(content))

    def add_json(self, value: Json, media_type: str) -> Descriptor:
        """Write the canonical JSON of a value, and return its descriptor."""
        return self.add(format_json(value), media_type)

    @contextmanager
    def make_file(self) -> Iterator[Path]:
        """Yield the path of a new file on the same disk, which is removed at the end unless it was placed."""
        path = self.root / "tmp" / secrets.token_hex(8)
        with explain_disk_errors(self.root):
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def place(self, path: Path, digest: str) -> None:
        """Move a complete file of ``make_file`` to the place of its digest."""
        path.chmod(0o444)  # a layout shares it by a second name
        path.replace(self.locate(digest))

    def read_note(self, key: str) -> Descriptor | None:
        """Return the descriptor that was noted for a key, if its blob is intact; otherwise None."""
        try:
            found = Descriptor.model_validate_json((self.root / "notes" / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None
        return found if self.has(found) else None

    def write_note(self, key: str, descriptor: Descriptor) -> None:
        """Note a descriptor for a key."""
        with self.make_file() as path:
            path.write_bytes(format_json(descriptor.dump()))
            path.replace(self.root / "notes" / f"{key}.json")

    def collect(self, *, days: float = 30.0) -> None:
        """Remove what was not used for some days, and unfinished files of killed processes."""
        for name, seconds in (("sha256", days * 86_400), ("notes", days * 86_400), ("tmp", _LEFT_SECONDS)):
            for path in (self.root / name).iterdir():
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > seconds:
                        path.unlink()
