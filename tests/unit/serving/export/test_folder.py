from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.export.folder import write_folder

FILES = {PurePosixPath("a/b.txt"): b"text"}


def test_the_folder_is_complete_when_it_is_checked(tmp_path) -> None:
    seen = write_folder(FILES, tmp_path / "deep" / "out", lambda made: (made / "a" / "b.txt").read_bytes())
    assert seen == b"text"
    assert (tmp_path / "deep" / "out" / "a" / "b.txt").read_bytes() == b"text"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_a_failed_check_leaves_nothing(tmp_path) -> None:
    def fail(_: Path) -> None:
        raise RuntimeError("differs")

    with pytest.raises(RuntimeError):
        write_folder(FILES, tmp_path / "out", fail)
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_is_used_and_any_other_is_not(tmp_path) -> None:
    (tmp_path / "out").mkdir()
    write_folder(FILES, tmp_path / "out", lambda _: None)
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(tmp_path / "absent")
    for place in (tmp_path / "out", file, link):
        with pytest.raises(HoneError, match="exists") as refused:
            write_folder({PurePosixPath("c"): b""}, place, lambda _: None)
        assert refused.value.slug == "option-invalid"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]


def test_a_folder_that_is_filled_meanwhile_is_kept(tmp_path) -> None:
    def fill(_: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()

    with pytest.raises(HoneError, match="exists"):
        write_folder(FILES, tmp_path / "out", fill)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_place_where_nothing_may_be_written(tmp_path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "out", tmp_path / "file" / "deep" / "out"):
        with pytest.raises(HoneError, match="cannot be written") as refused:
            write_folder(FILES, place, lambda _: None)
        assert refused.value.slug == "option-invalid"


def test_the_current_folder_is_used_if_it_is_empty(tmp_path, monkeypatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_folder(FILES, Path(), lambda _: None)
    assert (tmp_path / "here" / "a" / "b.txt").is_file()


@pytest.mark.parametrize("name", ["../out", "/out"])
def test_no_file_is_written_outside(tmp_path, name) -> None:
    with pytest.raises(ValueError, match="outside"):
        write_folder({PurePosixPath(name): b""}, tmp_path / "x" / "out", lambda _: None)
