"""Errors survive Kedro."""

from __future__ import annotations

import pickle

import pytest
from kedro.io import DatasetError

from kedro_hone.core.errors import HoneError
from kedro_hone.datasets.errors import DataError, find_error


@pytest.fixture
def error():
    return DataError("data-modified", "It was changed.", why="Somebody wrote it:\n  twice.", hint="Commit it.")


def test_it_is_both_and_crosses_processes(error):
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, HoneError)
    assert isinstance(again, DatasetError)
    assert str(again) == str(error)


def test_it_is_found_among_the_causes(error):
    outer = DatasetError("gate: it failed")
    outer.__cause__ = error
    assert find_error(outer) is error
    assert find_error(error) is error


def test_it_is_read_back_from_the_text(error):
    found = find_error(DatasetError(f"gate: {error}"))
    assert (found.slug, found.why, found.hint) == (error.slug, error.why, error.hint)
    assert found.what == f"gate: {error.what}"


def test_other_errors_hold_none():
    assert find_error(ValueError("no")) is None
    assert find_error(ValueError("a\n  why:  b\n  next: c\n  more: python -m kedro_hone hone explain nothing")) is None
