from __future__ import annotations

import os
import re
import shutil

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values import trees
from hone_runtime.values.trees import StrangeTreeError, copy_bounded, copy_tree_bounded, measure_tree


def test_files_and_links_are_copied(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "a").write_bytes(b"a" * 3_000_000)
    (source / "empty").touch()
    (source / "link").symlink_to("deep")
    (source / "out").symlink_to("/dev/zero")
    target.mkdir()
    copy_tree_bounded(source, target)
    assert (target / "deep" / "er" / "a").read_bytes() == b"a" * 3_000_000
    assert (target / "empty").read_bytes() == b""
    assert (target / "link").readlink().name == "deep"
    assert (target / "out").is_symlink()
    assert measure_tree(source / "deep" / "er" / "a") == 3_000_000


@pytest.mark.parametrize("what", ["pipe", "many"])
def test_what_is_no_version_is_refused_before_it_is_read(tmp_path, monkeypatch, what):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    if what == "pipe":
        os.mkfifo(source / "pipe")
    else:
        monkeypatch.setattr(trees, "MOST_FILES", 2)
        for name in "abc":
            (source / name).touch()
    with pytest.raises(StrangeTreeError):
        copy_tree_bounded(source, target)
    assert not [*target.iterdir()]


@pytest.mark.parametrize("place", ["/dev/zero", "/dev", "pipe"])
def test_what_is_no_file_and_no_folder_of_files_has_no_size(tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StrangeTreeError):
        measure_tree(tmp_path / place)


@pytest.mark.parametrize("more", [0, 1, 1 << 50])
def test_what_does_not_fit_is_not_copied_and_the_disk_is_told(tmp_path, more):
    """Also what would not fit if the disk were empty: it is too small, and the model may be whole."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    size = min(shutil.disk_usage(tmp_path).total + more, 1 << 43)
    with (source / "a").open("wb") as stream:
        stream.truncate(size)
    with pytest.raises(HoneError) as caught:
        copy_tree_bounded(source, target)
    assert caught.value.slug == "store-full"
    assert re.fullmatch(r"It has [\d.]+ MiB, and [\d.]+ MiB are free of [\d.]+ MiB in all\.", caught.value.why)
    assert not [*target.iterdir()]


def test_a_file_that_is_none_is_not_copied(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match="is not a regular file"):
        copy_bounded(tmp_path / "pipe", tmp_path / "copy")
