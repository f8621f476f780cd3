from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path, PurePosixPath

from kedro_hone.serving.image.archives import DIFF_ID, Tree, write_layer

LONG = f"{'d' * 90}/{'e' * 90}/naïve-{'f' * 120}.py"


def pack(tree: Tree, folder: Path) -> tuple[bytes, dict[str, tarfile.TarInfo]]:
    descriptor = write_layer(tree, folder / "layer")
    content = (folder / "layer").read_bytes()
    assert descriptor.size == len(content)
    assert descriptor.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    plain = gzip.decompress(content)
    assert (descriptor.annotations or {})[DIFF_ID] == f"sha256:{hashlib.sha256(plain).hexdigest()}"
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        return content, {one.name: one for one in archive.getmembers()}


def test_equal_files_give_equal_bytes_whatever_their_times_and_modes_are(tmp_path: Path) -> None:
    packed = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.bin").write_bytes(b"weights" * 100_000)
        (folder / "model.bin").chmod(0o600 + 0o100 * number)
        os.utime(folder / "model.bin", (number, number))
        names = ("b/model.bin", "a/x.txt") if number == 1 else ("a/x.txt", "b/model.bin")
        contents = {"a/x.txt": b"text", "b/model.bin": folder / "model.bin"}
        packed.append(pack({PurePosixPath(name): contents[name] for name in names}, folder)[0])
    assert packed[0] == packed[1]


def test_folders_come_before_their_files_and_nobody_owns_them(tmp_path: Path) -> None:
    _, members = pack({PurePosixPath("opt/a/x"): b"1", PurePosixPath("opt/a/y"): lambda: b"22"}, tmp_path)
    assert list(members) == ["opt", "opt/a", "opt/a/x", "opt/a/y"]
    assert members["opt/a/y"].size == 2
    for one in members.values():
        assert (one.uid, one.gid, one.mtime, one.uname, one.gname) == (0, 0, 0, "", "")
        assert one.mode == (0o755 if one.isdir() else 0o644)


def test_long_and_foreign_names_survive(tmp_path: Path) -> None:
    _, members = pack({PurePosixPath(LONG): b"x"}, tmp_path)
    assert LONG in members


def test_a_file_without_content_is_left_out_with_its_folder(tmp_path: Path) -> None:
    _, members = pack({PurePosixPath("a/x"): lambda: None, PurePosixPath("b/y"): b""}, tmp_path)
    assert list(members) == ["b", "b/y"]
