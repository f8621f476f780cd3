from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.sources import formats
from kedro_hone.sources.catalogue import describe_baseline, forget_registrations, note_source, read_sources, register
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats import onnx
from kedro_hone.sources.source_format import Flavor, SourceFormat

MODULE = """
from kedro_hone.sources.source_format import Flavor, SourceFormat


def detect(pulled):
    path = pulled.folder / "model.{suffix}"
    return Flavor(format="onnx", files=((path.name, "model.onnx"),)) if path.is_file() else None


SOURCE_FORMAT = SourceFormat(name="{name}", noun="a file of mine", detect=detect, seals=frozenset({{"onnx"}}),
                             baseline="a runtime of mine, {{threads}}", order={order})
"""


@pytest.fixture(autouse=True)
def _no_registrations():
    forget_registrations()
    yield
    forget_registrations()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of modules and installed distributions; its modules are forgotten afterwards."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    yield place
    # Not by the last part of the name alone: PyTorch has a module fake_tensor, and two of it do not know each other.
    for name in [name for name in sys.modules if name.startswith(("fake_", "kedro_hone.sources.formats.fake_"))]:
        del sys.modules[name]


def write_entry_point(site, target):
    info = site / "fake_stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kedro_hone.sources]\nmine = {target}\n")


def write_module(place, module, *, name="mine", suffix="mine", order=50):
    (place / f"{module}.py").write_text(MODULE.format(name=name, suffix=suffix, order=order))


def pull(folder, name):
    folder.mkdir()
    (folder / name).write_bytes(b"x")
    return folder


def make_artifact(form, **metadata):
    return Artifact(format=form, digest="", inputs=(), outputs=(), runtime="thing", metadata=metadata)


def list_formats():
    return [source for source, _ in read_sources()[0].values()]


def test_the_order_is_explicit():
    found = {source.name: source.order for source in list_formats()}
    assert found == {
        "pytorch-module": 10,
        "published": 20,
        "transformers": 25,
        "onnx": 30,
        "sklearn": 35,
        "pytorch": 40,
        "diffusers": 80,
        "tensorflow": 81,
        "keras": 82,
        "litert": 83,
        "torchscript": 85,
        "estimator-pickle": 88,
        "pickle": 90,
    }
    assert list(found.values()) == sorted(found.values())


def test_each_is_in_a_module_of_its_name():
    for source in list_formats():
        assert source.detect.__module__ == f"{formats.__name__}.{source.name.replace('-', '_')}"


def test_one_file_in_the_folder_is_a_new_format(site, tmp_path, monkeypatch):
    write_module(site, "fake_built_in")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(site)])
    assert read_flavor(pull(tmp_path / "pulled", "model.mine"), trust=frozenset()).source == "mine"
    assert [path.name for path in site.glob("*.py")] == ["fake_built_in.py"]


def test_other_packages_come_by_entry_points(site, tmp_path):
    write_module(site, "fake_package")
    write_entry_point(site, "fake_package:SOURCE_FORMAT")
    flavor = read_flavor(pull(tmp_path / "pulled", "model.mine"), trust=frozenset())
    assert (flavor.source, flavor.format, flavor.interface) == ("mine", "onnx", "onnx")


@pytest.mark.parametrize(("order", "source"), [(25, "mine"), (35, "onnx")])
def test_the_first_in_the_order_has_the_folder(site, tmp_path, order, source):
    write_module(site, "fake_package", suffix="onnx", order=order)
    write_entry_point(site, "fake_package:SOURCE_FORMAT")
    assert read_flavor(pull(tmp_path / "pulled", "model.onnx"), trust=frozenset()).source == source


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no such library')", "RuntimeError: no such library"),
        ("SOURCE_FORMAT = 3", "TypeError: 3 is of the type int, not SourceFormat"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
    ],
)
def test_what_cannot_be_imported_is_said_and_harms_no_other(site, tmp_path, caplog, text, reason):
    (site / "fake_package.py").write_text(text)
    write_entry_point(site, "fake_package:SOURCE_FORMAT")
    place = "the package fake-stranger (fake_package:SOURCE_FORMAT)"
    assert {at: describe_exception(error) for at, error in read_sources()[1].items()} == {place: reason}
    assert read_flavor(pull(tmp_path / "onnx", "model.onnx"), trust=frozenset()).source == "onnx"
    assert reason in caplog.text
    with pytest.raises(HoneError) as caught:
        read_flavor(pull(tmp_path / "other", "model.mine"), trust=frozenset())
    assert f"Could not be imported: {place}" in caught.value.why


def detect_here(pulled):
    return Flavor(format="toy-source", files=()) if (pulled.folder / "model.here").is_file() else None


def detect_there(pulled):
    return None


def test_a_project_registers_its_own(tmp_path):
    here = SourceFormat(name="here", noun="a file of here", detect=detect_here)
    assert register(here) is here
    register(here)
    folder = pull(tmp_path / "pulled", "model.here")
    assert [source.name for source in list_formats()].count("here") == 1
    assert read_flavor(folder, trust=frozenset()).source == "here"
    with pytest.raises(TypeError, match="is of the type function, not SourceFormat"):
        register(detect_here)


def test_a_name_may_not_be_taken_twice():
    register(SourceFormat(name="here", noun="a file of here", detect=detect_here))
    with pytest.raises(HoneError) as caught:
        register(SourceFormat(name="here", noun="a file of there", detect=detect_there))
    assert caught.value.slug == "source-format-taken"
    assert "detect_here" in caught.value.why
    forget_registrations()
    register(SourceFormat(name="onnx", noun="a file of here", detect=detect_here))
    with pytest.raises(HoneError) as caught:
        read_sources()
    assert "built in (kedro_hone.sources.formats.onnx:SOURCE_FORMAT)" in caught.value.why


def test_the_baselines():
    said = {form: describe_baseline(make_artifact(form), threads=2) for form in ("pytorch-module", "pytorch", "onnx")}
    assert said == {
        "pytorch-module": "the author's class in eager PyTorch (eval, inference mode), 2 threads",
        "pytorch": "the exported program, run as an ordinary PyTorch module in eager mode with 2 threads",
        "onnx": "ONNX Runtime with its default settings, 2 threads",
    }
    assert describe_baseline(make_artifact("openvino-ir"), threads=1) == "thing on openvino-ir, 1 thread"


@pytest.mark.parametrize("order", [25, 50])
def test_a_baseline_is_the_one_of_the_format_that_was_pulled(site, tmp_path, order):
    """Two source formats may become the same format of artifacts: the artifact then notes which one it was."""
    write_module(site, "fake_package", order=order)
    write_entry_point(site, "fake_package:SOURCE_FORMAT")
    noted = note_source(read_flavor(pull(tmp_path / "mine", "model.mine"), trust=frozenset()))
    assert noted == {"source": "mine"}
    assert describe_baseline(make_artifact("onnx", **noted), threads=3) == "a runtime of mine, 3 threads"
    assert note_source(read_flavor(pull(tmp_path / "onnx", "model.onnx"), trust=frozenset())) == {}
    assert describe_baseline(make_artifact("onnx"), threads=3) == "ONNX Runtime with its default settings, 3 threads"


def test_no_built_in_format_needs_the_note():
    """Their artifacts have the digests that they had before there were source formats."""
    for source in list_formats():
        for form in source.seals:
            assert note_source(Flavor(format=form, files=(), source=source.name)) == {}
    assert note_source(Flavor(format="onnx", files=(), source="published")) == {}


def test_a_changed_copy_of_a_built_in_format_does_not_replace_it():
    register(replace(onnx.SOURCE_FORMAT, baseline="a supercomputer, {threads}"))

    with pytest.raises(HoneError) as caught:
        read_sources()
    assert caught.value.slug == "source-format-taken"
    assert "the project" in caught.value.why


def test_a_built_in_format_that_is_registered_too_is_one_format():
    register(onnx.SOURCE_FORMAT)

    assert read_sources()[0]["onnx"][0] is onnx.SOURCE_FORMAT


def test_a_built_in_format_that_cannot_be_imported_is_an_error_and_no_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "kedro_hone.sources.formats.onnx", None)

    with pytest.raises(ImportError, match=r"formats\.onnx"):
        read_sources()


def test_a_project_that_is_loaded_again_replaces_its_own_format():
    register(SourceFormat(name="here", noun="a file of here", detect=detect_here))
    edited = register(SourceFormat(name="here", noun="an edited file of here", detect=detect_here))

    assert read_sources()[0]["here"][0] is edited


def call_for(call, pulled):
    return call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: {}["boom"], "KeyError: 'boom'"),
        (lambda: sys.exit(0), "SystemExit: 0"),
        (lambda: True, "bool"),
        (lambda: Flavor(format="other", files=()), "'other', which is not in its seals"),
    ],
)
def test_a_format_that_fails_is_named(tmp_path, call, words):
    detect = partial(call_for, call)
    register(SourceFormat(name="here", noun="a file of here", detect=detect, seals=frozenset({"onnx"}), order=1))

    with pytest.raises(HoneError) as caught:
        read_flavor(pull(tmp_path / "pulled", "model.here"), trust=frozenset())

    assert caught.value.slug == "source-format-broken"
    assert "here" in caught.value.what
    assert "the project" in caught.value.why
    assert words in caught.value.why


def test_the_error_of_a_format_itself_is_its_own(tmp_path):
    error = HoneError("model-corrupt", "It is cut short.", why="None.", hint="None.")

    def detect(pulled):
        raise error

    register(SourceFormat(name="here", noun="a file of here", detect=detect, order=1))

    with pytest.raises(HoneError) as caught:
        read_flavor(pull(tmp_path / "pulled", "model.here"), trust=frozenset())
    assert caught.value is error
