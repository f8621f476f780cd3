"""Files that a proposal reads, and the limit that it derives."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.proposal import _choose_drop, _fetch
from kedro_hone.derivation.request import Request


def test_a_path_of_the_project_counts_from_it_and_another_is_absolute():
    assert _fetch("data/splits/gate.csv", Path("/project")) == Path("/project/data/splits/gate.csv")
    assert _fetch("/elsewhere/gate.csv", Path("/project")) == Path("/elsewhere/gate.csv")


def test_data_at_a_url_are_fetched_anew_each_time(tmp_path):
    files = fsspec.filesystem("memory")
    files.mkdirs("/rows", exist_ok=True)
    files.pipe_file("/rows/a.csv", b"x\n1\n")
    files.pipe_file("/rows/b.csv", b"x\n2\n")
    first = _fetch("memory://rows", tmp_path)
    assert sorted(path.name for path in first.rglob("*.csv")) == ["a.csv", "b.csv"]
    files.rm("/rows/b.csv")
    files.pipe_file("/rows/a.csv", b"x\n3\n")
    again = _fetch("memory://rows", tmp_path)
    assert [path.read_bytes() for path in again.rglob("*.csv")] == [b"x\n3\n"]


@pytest.mark.parametrize(
    ("asked", "provable", "limit"), [(None, None, 0.01), (None, 0.002, 0.01), (None, 0.07, 0.07), (0.05, 0.03, 0.05)]
)
def test_the_limit_is_what_was_asked_for_or_the_least_that_can_be_proved(asked, provable, limit):
    assert _choose_drop(Request(source="m", max_drop=asked), provable) == limit


@pytest.mark.parametrize(("asked", "provable"), [(0.01, 0.02), (None, 0.3)])
def test_a_limit_that_cannot_be_proved_is_refused_with_the_one_that_can(asked, provable):
    with pytest.raises(HoneError, match="cannot prove") as raised:
        _choose_drop(Request(source="m", max_drop=asked), provable)
    assert raised.value.slug == "gate-unprovable"
    assert f"--max-drop {provable:.2%}" in raised.value.hint
