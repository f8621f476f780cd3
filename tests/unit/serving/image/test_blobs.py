from __future__ import annotations

import os
import time
from pathlib import Path

from kedro_hone.serving.image.blobs import Blobs


def test_a_blob_is_there_only_with_every_byte(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    one = blobs.add(b"weights", "application/octet-stream")
    assert blobs.has(one)
    blobs.locate(one.digest).write_bytes(b"weighty")
    assert not blobs.has(one)
    blobs.locate(one.digest).write_bytes(b"weigh")
    assert not blobs.has(one)
    blobs.locate(one.digest).unlink()
    assert not blobs.has(one)


def test_a_note_is_worth_as_much_as_its_blob(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    one = blobs.add(b"weights", "application/octet-stream")
    blobs.write_note("key", one)
    assert blobs.read_note("key") == one
    assert blobs.read_note("other") is None
    blobs.locate(one.digest).write_bytes(b"weighty")
    assert blobs.read_note("key") is None


def test_an_unfinished_file_is_removed_and_never_placed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    with blobs.make_file() as path:
        path.write_bytes(b"half")
    assert not [*(tmp_path / "tmp").iterdir(), *(tmp_path / "sha256").iterdir()]


def test_what_was_not_used_for_a_month_is_removed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    old, used = blobs.add(b"old", "a/b"), blobs.add(b"used", "a/b")
    for one in (old, used):
        os.utime(blobs.locate(one.digest), (time.time() - 31 * 86_400,) * 2)
    assert blobs.has(used)
    blobs.collect()
    assert blobs.has(used)
    assert not blobs.locate(old.digest).exists()
