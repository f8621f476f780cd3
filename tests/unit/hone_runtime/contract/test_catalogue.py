from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import (
    find_installed,
    forget_registrations,
    list_builtin,
    read_catalogue,
    register,
)
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = """
from pathlib import Path
from hone_runtime.contract.adaptor import Adaptor; from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Stage

def can_take(artifact, options, host):
    return None

TOOLCHAIN = Toolchain(name="{name}", folder=Path("{folder}"))
ADAPTORS = (
    Adaptor(name="{name}.{what}", version=1, toolchain=TOOLCHAIN, stage=Stage.COMPRESS,
            accepts=frozenset({{"onnx"}}), produces="onnx", summary="One.", can_take=can_take),
)
"""


@pytest.fixture(autouse=True)
def _no_registrations() -> Iterator[None]:
    forget_registrations()
    yield
    forget_registrations()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules and installed distributions; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("fake_"):
            del sys.modules[name]


def write_module(site: Path, name: str, *, toolchain: str = "first", what: str = "one", folder: str = "/first") -> str:
    (site / f"{name}.py").write_text(MODULE.format(name=toolchain, what=what, folder=folder))
    return name


def write_entry_point(site: Path, package: str, module: str) -> None:
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kedro_hone.adaptors]\n{package} = {module}\n")


def make_adaptor(name: str = "own.half", *, version: int = 1, folder: str = "/own") -> Adaptor:
    return Adaptor(
        name=name,
        version=version,
        toolchain=Toolchain(name=name.partition(".")[0], folder=Path(folder)),
        stage=Stage.COMPRESS,
        accepts=frozenset({"onnx"}),
        produces="onnx",
        summary="Half.",
    )


def test_tables_name_importable_looking_modules():
    assert all(module == f"kedro_hone.adaptors.{name}.adaptor" for name, module in list_builtin().items())


def test_builtin_modules_are_imported_only_when_asked(site):
    table = {"first": write_module(site, "fake_first")}
    assert "fake_first" not in sys.modules
    catalogue = read_catalogue(table)
    assert list(catalogue.toolchains) == ["first"]
    assert list(catalogue.adaptors) == ["first.one"]
    assert catalogue.broken == {}


def test_other_packages_come_by_entry_points(site):
    write_entry_point(site, "stranger", write_module(site, "fake_stranger", toolchain="strange", what="thing"))
    catalogue = read_catalogue({"first": write_module(site, "fake_first")})
    assert list(catalogue.adaptors) == ["first.one", "strange.thing"]


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("raise RuntimeError('no libcuda')", "no libcuda"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("import not_installed_anywhere", "not_installed_anywhere"),
        ("TOOLCHAIN = 3\nADAPTORS = ()", "3 is of the type int, not Toolchain"),
        ("x = 1", "TOOLCHAIN"),
        (MODULE.format(name="odd", what="one", folder="/") + "ADAPTORS = (4,)", "4 is of the type int, not Adaptor"),
    ],
)
def test_broken_packages_are_listed_with_their_traceback(site, text, clue):
    (site / "fake_broken.py").write_text(text)
    write_entry_point(site, "stranger", "fake_broken")
    catalogue = read_catalogue({"first": write_module(site, "fake_first")})
    assert list(catalogue.adaptors) == ["first.one"]
    (error,) = catalogue.broken.values()
    assert list(catalogue.broken) == ["the package stranger (fake_broken)"]
    assert clue in "".join(traceback.format_exception(error))


def test_an_adaptor_of_another_toolchain_makes_its_module_broken(site):
    write_module(site, "fake_first")
    (site / "fake_thief.py").write_text(
        "from fake_first import ADAPTORS\n"
        + MODULE.format(name="thief", what="one", folder="/t").replace("ADAPTORS =", "MINE =")
    )
    catalogue = read_catalogue({"thief": "fake_thief"})
    assert "the adaptor first.one belongs to first, not to thief" in str(catalogue.broken["built in (fake_thief)"])


def test_a_name_taken_by_another_package_is_an_error(site):
    write_entry_point(site, "stranger", write_module(site, "fake_stranger", folder="/elsewhere"))
    with pytest.raises(HoneError) as caught:
        read_catalogue({"first": write_module(site, "fake_first")})
    assert caught.value.slug == "adaptor-name-taken"
    assert "built in (fake_first)" in caught.value.why
    assert "the package stranger (fake_stranger)" in caught.value.why


def test_register_adds_the_projects_own():
    register(make_adaptor("own.half"), make_adaptor("own.quarter"))
    catalogue = read_catalogue({})
    assert list(catalogue.adaptors) == ["own.half", "own.quarter"]


def test_register_takes_a_toolchain_without_adaptors():
    register(Toolchain(name="own", folder=Path("/own"), runs=frozenset({"onnx"})))
    assert list(read_catalogue({}).toolchains) == ["own"]


def test_register_adds_to_a_builtin_toolchain(site):
    catalogue = read_catalogue({"first": write_module(site, "fake_first")})
    toolchain = catalogue.find_toolchain("first")
    register(
        Adaptor(
            name="first.mine",
            version=1,
            toolchain=toolchain,
            stage=Stage.COMPRESS,
            accepts=frozenset({"onnx"}),
            produces="onnx",
            summary="Mine.",
        )
    )
    catalogue = read_catalogue({"first": "fake_first"})
    assert list(catalogue.adaptors) == ["first.one", "first.mine"]
    assert list(catalogue.toolchains) == ["first"]


def test_register_as_a_decorator_leaves_the_function_as_it_is():
    @register
    def make_half() -> Adaptor:
        return make_adaptor("own.half")

    assert make_half().name == "own.half"
    assert list(read_catalogue({}).adaptors) == ["own.half"]


def test_registering_the_same_twice_changes_nothing():
    register(make_adaptor())
    register(make_adaptor())
    assert list(read_catalogue({}).adaptors) == ["own.half"]


def test_a_reloaded_module_registers_its_newest_functions(site):
    write_module(site, "fake_first")
    import fake_first as old

    register(old.ADAPTORS[0])
    del sys.modules["fake_first"]
    import fake_first as new

    register(new.ADAPTORS[0])
    assert new.can_take is not old.can_take
    assert read_catalogue({}).find_adaptor("first.one").can_take is new.can_take


@pytest.mark.parametrize("other", [{"version": 2}, {"folder": "/another"}])
def test_registering_another_value_under_a_taken_name_is_an_error(other):
    register(make_adaptor())
    with pytest.raises(HoneError) as caught:
        register(make_adaptor(**other))
    assert caught.value.slug == "adaptor-name-taken"
    assert [a.version for a in read_catalogue({}).adaptors.values()] == [1]


def test_register_refuses_what_is_no_adaptor():
    with pytest.raises(TypeError, match="4 is of the type int, not Adaptor"):
        register(make_adaptor(), 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="belongs to own"):
        register(Toolchain(name="other", folder=Path("/")), make_adaptor())


def test_unknown_names_come_with_the_nearest(site):
    (site / "fake_broken.py").write_text("raise ImportError('x')")
    catalogue = read_catalogue({"first": write_module(site, "fake_first"), "lost": "fake_broken"})
    with pytest.raises(HoneError, match=r"Did you mean 'first\.one'") as caught:
        catalogue.find_adaptor("first.on")
    assert caught.value.slug == "adaptor-unknown"
    assert "Could not be imported: built in (fake_broken)" in caught.value.why
    with pytest.raises(HoneError, match="Did you mean 'first'") as caught:
        catalogue.find_toolchain("frist")
    assert caught.value.slug == "toolchain-unknown"
    with pytest.raises(HoneError) as caught:
        catalogue.find_toolchain("zzz")
    assert "Did you mean" not in caught.value.hint


def test_a_copy_with_other_functions_does_not_replace_an_installed_adaptor(site):
    builtin = {"first": write_module(site, "fake_first")}
    adaptor = read_catalogue(builtin).find_adaptor("first.one")
    take = lambda *_: None  # noqa: E731 - it gets the name of the real one, as a closure of one factory has
    take.__module__, take.__qualname__ = adaptor.can_take.__module__, adaptor.can_take.__qualname__
    register(replace(adaptor, can_take=take))

    with pytest.raises(HoneError) as caught:
        read_catalogue(builtin)
    assert caught.value.slug == "adaptor-name-taken"
    assert "another from the project (/first)" in caught.value.why


def test_an_installed_adaptor_that_is_registered_too_is_one_adaptor(site):
    builtin = {"first": write_module(site, "fake_first")}
    adaptor = read_catalogue(builtin).find_adaptor("first.one")
    register(adaptor)

    assert read_catalogue(builtin).find_adaptor("first.one") is adaptor


def test_one_toolchain_is_found_without_the_others(monkeypatch):
    register(toolchain := Toolchain(name="own", folder=Path("/own")))
    assert find_installed("own") is toolchain
    assert find_installed("none") is None
    monkeypatch.setattr("hone_runtime.contract.catalogue.read_catalogue", None)
    assert find_installed("onnxruntime").name == "onnxruntime"
