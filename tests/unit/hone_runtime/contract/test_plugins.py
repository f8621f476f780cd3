"""Where plug-ins are found, what happens when two have one name, and what becomes of what their code raises."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from typing import NamedTuple

import pytest

from hone_runtime.contract.plugins import (
    BUILT_IN,
    Offer,
    Plugins,
    check_kind,
    describe_exception,
    guard,
    list_modules,
    list_offers,
    list_parts,
    load,
    locate_function,
)
from hone_runtime.errors import HoneError

GROUP = "kedro_hone.test_entry_points"


def install(site, name: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}\n")


def list_names() -> list[str]:
    return sorted(offer.name for offer in list_offers(GROUP, {}))


@pytest.fixture
def fresh_parts():
    list_parts.cache_clear()
    yield
    list_parts.cache_clear()


def test_each_built_in_part_can_be_imported(fresh_parts):
    assert {name: bool(point.load()) for name, point in list_parts().items()} == {
        "adaptors": True,
        "openers": True,
        "registries": True,
    }


def test_another_distribution_adds_no_part(tmp_path, monkeypatch, fresh_parts):
    before = list_parts()
    list_parts.cache_clear()
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "thief")
    (tmp_path / "thief-1.0.dist-info/entry_points.txt").write_text("[hone_runtime.parts]\nadaptors = thief\n")
    assert list_parts() == before


def test_an_installation_without_parts_is_explained(tmp_path, monkeypatch, fresh_parts):
    """As after an update of an editable installation's sources alone."""
    info = tmp_path / "kedro_hone-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kedro-hone\nVersion: 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="install it again"):
        list_parts()


def test_what_is_installed_later_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "first")
    assert list_names() == ["first"]
    assert [offer.origin for offer in list_offers(GROUP, {})] == ["the package first"]
    install(tmp_path, "second")
    os.utime(tmp_path, ns=(0, tmp_path.stat().st_mtime_ns + 10**9))  # the clock of some file systems is coarse
    assert list_names() == ["first", "second"]


@pytest.mark.parametrize("place", ["", "."])
def test_the_working_folder_names_no_code(tmp_path, monkeypatch, fresh_parts, place):
    """It may be a downloaded model, and Python has it on its path where it was started with ``-c``."""
    before = list_parts()
    list_parts.cache_clear()
    monkeypatch.chdir(tmp_path)
    for path in (place, str(tmp_path)):
        monkeypatch.setattr(sys, "path", [path, *sys.path])
    install(tmp_path, "thief")
    info = tmp_path / "kedro_hone-9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kedro-hone\nVersion: 9.0\n")
    (info / "entry_points.txt").write_text("[hone_runtime.parts]\nadaptors = thief\n")

    assert list_parts() == before
    assert list_names() == []


def test_the_files_of_all_distributions_are_not_read_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "first")
    reads = []
    read = metadata.distributions
    monkeypatch.setattr(metadata, "distributions", lambda **which: reads.append(which) or read(**which))
    assert [list_names() for _ in range(3)] == [["first"]] * 3
    assert not list_offers("kedro_hone.another_group", {})
    assert len(reads) == 1, "whichever group is asked for"


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


class Thing(NamedTuple):
    """A plug-in of the simplest kind."""

    name: str
    place: str = "shop.things"
    edition: int = 1


def open_plugins(**options):
    """Return the plug-ins of a kind; the tests of the real kinds are next to those."""
    clash = "Two things are named {name!r}."
    return Plugins[Thing](slug="gate-invalid", clash=clash, locate=lambda thing: thing.place, **options)


def test_what_is_registered_again_replaces_itself_and_what_is_not_the_same_is_refused():
    plugins = open_plugins()
    plugins.register(Thing("a"), Thing("b"))
    plugins.register(Thing("a", edition=2))
    assert plugins.own == {"a": Thing("a", edition=2), "b": Thing("b")}

    with pytest.raises(HoneError) as caught:
        plugins.register(Thing("c"), Thing("a", "shop.others"))

    assert (caught.value.slug, caught.value.what) == ("gate-invalid", "Two things are named 'a'.")
    assert caught.value.why == "One comes from the project (shop.things), another from the project (shop.others)."
    assert "Rename one of them" in caught.value.hint
    assert plugins.own == {"a": Thing("a", edition=2), "b": Thing("b")}, "all are registered or none"


def test_two_of_one_name_are_refused_also_when_they_are_registered_together():
    plugins = open_plugins()
    with pytest.raises(HoneError, match="Two things are named 'a'"):
        plugins.register(Thing("a"), Thing("a", "shop.others"))
    assert plugins.own == {}


def test_a_kind_may_say_itself_which_is_the_same():
    plugins = open_plugins(identify=lambda thing: thing.edition)
    plugins.register(Thing("a"))
    plugins.register(Thing("a", "moved.things"))
    assert plugins.own == {"a": Thing("a", "moved.things")}

    with pytest.raises(HoneError, match="Two things"):
        plugins.register(Thing("a", "moved.things", edition=2))


def test_what_is_offered_comes_before_what_is_registered():
    plugins, offer = open_plugins(), Offer("b", "kedro_hone.b", BUILT_IN)
    plugins.register(Thing("a"), Thing("b"))

    merged = plugins.merge([(Thing("b"), offer)])

    assert list(merged) == ["b", "a"]
    assert merged["b"] == (Thing("b"), offer), "an equal one is the same, and the first stands"
    assert merged["a"] == (Thing("a"), Offer("a", "shop.things", "the project"))


def test_what_is_offered_is_not_replaced_by_what_is_registered():
    plugins = open_plugins()
    plugins.register(Thing("a"))

    with pytest.raises(HoneError, match="Two things are named 'a'") as caught:
        plugins.merge([(Thing("a", edition=2), Offer("a", "kedro_hone.a:THING", BUILT_IN))])

    assert caught.value.why == "One comes from built in (kedro_hone.a:THING), another from the project (shop.things)."


def test_two_offers_of_one_name_are_refused():
    offers = [(Thing("a", edition=n), Offer("a", f"shop.{n}", f"the package {n}")) for n in (1, 2)]
    with pytest.raises(HoneError) as caught:
        open_plugins().merge(offers)
    assert caught.value.why == "One comes from the package 1 (shop.1), another from the package 2 (shop.2)."


def test_what_is_built_in_is_offered_first(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "first")

    assert list_offers(GROUP, {"mine": "shop.mine:THING"}) == [
        Offer("mine", "shop.mine:THING", "built in"),
        Offer("first", "first", "the package first"),
    ]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A package with a sound module, one that cannot be imported and one that exits; forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    modules = {"__init__": "", "good": "THING = 3\n", "broken": "1 / 0\n", "gone": "import sys\nsys.exit(3)\n"}
    (tmp_path / "fake_things").mkdir()
    for name, text in modules.items():
        (tmp_path / "fake_things" / f"{name}.py").write_text(text)
    yield "fake_things"
    for name in [name for name in sys.modules if name.partition(".")[0] == "fake_things"]:
        del sys.modules[name]


def test_every_module_of_a_package_is_a_plug_in_and_is_not_imported_yet(fake):
    assert list_modules(fake, "THING") == {
        "broken": "fake_things.broken:THING",
        "gone": "fake_things.gone:THING",
        "good": "fake_things.good:THING",
    }
    assert "fake_things.good" not in sys.modules


def test_a_module_that_cannot_be_loaded_harms_no_other(fake):
    offers = list_offers(GROUP, list_modules(fake, "THING"))

    found, broken = load(offers, lambda number: number + 1)

    assert found == [(4, Offer("good", "fake_things.good:THING", "built in"))]
    assert {place: describe_exception(error) for place, error in broken.items()} == {
        "built in (fake_things.broken:THING)": "ZeroDivisionError: division by zero",
        "built in (fake_things.gone:THING)": "SystemExit: 3",
    }


def test_what_cannot_be_read_is_broken_too(fake):
    def refuse(value):
        raise KeyError(value)

    found, broken = load([Offer("good", "fake_things.good:THING", BUILT_IN)], refuse)

    assert found == []
    assert [repr(error) for error in broken.values()] == ["KeyError(3)"]


def test_a_value_of_another_type_is_named_and_cut_short():
    assert check_kind(True, int) is True
    with pytest.raises(TypeError) as caught:
        check_kind("x" * 500, int)
    assert str(caught.value) == f"'{'x' * 79} is of the type str, not int"


class Judge:
    def __call__(self):
        """Do nothing."""

    def judge(self):
        """Do nothing."""


def test_a_function_is_named_by_its_place_and_a_callable_object_by_its_class():
    assert locate_function(install) == f"{__name__}.install"
    assert locate_function(Judge().judge) == f"{__name__}.Judge.judge"
    assert locate_function(Judge()) == f"{__name__}.Judge"


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
