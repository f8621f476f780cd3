"""Entry points are read once, and again when something was installed."""

from __future__ import annotations

import json
import os
from importlib import metadata

import pytest

from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import Offer, guard, list_offers, load

GROUP = "kedro_hone.test_entry_points"


def install(site, name: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}\n")


def list_names() -> list[str]:
    return sorted(offer.name for offer in list_offers(GROUP, {}))


def test_what_is_installed_later_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "first")
    assert list_names() == ["first"]
    assert [offer.origin for offer in list_offers(GROUP, {})] == ["the package first"]
    install(tmp_path, "second")
    os.utime(tmp_path, ns=(0, tmp_path.stat().st_mtime_ns + 10**9))  # the clock of some file systems is coarse
    assert list_names() == ["first", "second"]


def test_the_files_of_all_distributions_are_not_read_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "first")
    reads = []
    read = metadata.entry_points
    monkeypatch.setattr(metadata, "entry_points", lambda **which: reads.append(which) or read(**which))
    assert [list_names() for _ in range(3)] == [["first"]] * 3
    assert reads == [{"group": GROUP}]


@pytest.mark.parametrize("error", [KeyError("boom"), SystemExit(0)])
def test_what_a_strangers_code_raises_is_explained_and_what_ours_raises_is_a_bug(error):
    say = {"culprit": "shop.detect", "hint": "Mend it."}
    with (
        pytest.raises(HoneError, match=f"shop.detect failed: {type(error).__name__}: ") as caught,
        guard("source-format-broken", "It broke.", **say),
    ):
        raise error
    assert caught.value.__cause__ is error
    with pytest.raises(type(error)), guard("source-format-broken", "It broke.", **say, ours=True):
        raise error


def test_an_error_for_people_passes():
    error = HoneError("model-corrupt", "It is cut short.", why="None.", hint="None.")
    with pytest.raises(HoneError) as caught, guard("source-format-broken", "", culprit="", hint=""):
        raise error
    assert caught.value is error


class Skipped(BaseException):
    """As what ``pytest.skip`` raises: neither an Exception nor an exit."""


@pytest.mark.parametrize("error", [Skipped("not here"), SystemExit(0), ValueError("no")])
def test_a_module_may_raise_anything_and_harms_no_other(error):
    offers = [Offer("a", "json:dumps", "the package a"), Offer("b", "json:loads", "the package b")]

    def read(value):
        if value is json.dumps:
            raise error
        return value

    assert load(offers, read) == ([(json.loads, offers[1])], {str(offers[0]): error})


def test_what_is_neither_an_error_nor_an_exit_is_explained_too():
    error = Skipped("not here")
    with (
        pytest.raises(HoneError, match=r"shop\.detect failed: Skipped: not here") as caught,
        guard("source-format-broken", "It broke.", culprit="shop.detect", hint="Mend it."),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_ctrl_c_ends_a_run_wherever_it_comes():
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load([Offer("a", "json:dumps", "the package a")], interrupt)
    with pytest.raises(KeyboardInterrupt), guard("source-format-broken", "", culprit="", hint=""):
        raise KeyboardInterrupt
