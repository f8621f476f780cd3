from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from proof import TAGS, prove

import kedro_hone
from hone_runtime.contract import catalogue as registry
from hone_runtime.contract.aliases import approve
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.local.registry import LocalRegistry

_TOY = Path(__file__).parents[3] / "hone_runtime" / "learner" / "toy.py"
_SPEC = importlib.util.spec_from_file_location("hone_test_toy", _TOY)
toy = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(toy)


@pytest.fixture
def winner(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "toolchain"))  # of locks, too
    registry.register(toy.make_toolchain(tmp_path / "toolchain"))
    yield toy.make_artifact(tmp_path / "sealed", seal=False)
    registry.forget_registrations()


def publish(tmp_path, artifact, run_id="1", **kwargs):
    arguments = {"name": "digits", "tags": TAGS, "alias": "honed", "metrics": {"speedup": 2.0}} | kwargs
    return LocalRegistry(tmp_path).publish(prove(tmp_path, artifact, run_id), **arguments)


def list_names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_winner_is_published_and_loaded(tmp_path, winner):
    done = publish(tmp_path, winner)
    assert (done.version, done.alias, done.uri) == ("1", "honed", str(tmp_path / "digits-hone" / "1"))
    info = LocalRegistry(tmp_path).resolve("digits-hone/honed")
    assert (info.uri, info.name, info.aliases) == (done.uri, "digits", ("honed",))
    assert info.is_optimized
    assert info.tags["hone.metric.speedup"] == "2.0"
    prove(tmp_path, winner).evidence.check(Path(done.uri) / "evidence")
    x, y = toy.predict(3)
    np.testing.assert_array_equal(kedro_hone.load(tmp_path / "digits-hone" / "honed")(x), y)


def test_the_disk_holds_a_published_file_once(tmp_path, winner, monkeypatch):
    proven = prove(tmp_path, winner)
    (sealed,) = (path for path in proven.files.rglob("*") if path.is_file())
    done = publish(tmp_path, winner)
    name = sealed.relative_to(proven.files)
    assert (Path(done.uri) / "artifact" / name).samefile(sealed)

    def refuse(*_, **__):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)  # the store is on another disk
    other = publish(tmp_path, winner, name="elsewhere")
    assert (Path(other.uri) / "artifact" / name).read_bytes() == sealed.read_bytes()


@pytest.mark.parametrize("root", [".", "elsewhere"])
def test_a_winner_goes_beside_its_model_wherever_that_lies(tmp_path, winner, root):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "digits.onnx").write_text("x")
    registry = LocalRegistry(tmp_path / root)
    name = registry.resolve(str(tmp_path / "models" / "digits.onnx")).name
    done = registry.publish(prove(tmp_path, winner), name=name, tags=TAGS, alias="honed")
    assert done.uri == str(tmp_path / "models" / "digits.onnx-hone" / "1")
    assert registry.resolve(done.uri).name == name


def test_the_same_publication_is_made_once(tmp_path, winner):
    assert publish(tmp_path, winner) == publish(tmp_path, winner)
    assert publish(tmp_path, winner, "2").version == "2"
    assert (tmp_path / "digits-hone" / "honed").resolve().name == "2"


def test_an_alias_may_be_none(tmp_path, winner):
    done = publish(tmp_path, winner, alias=None)
    assert LocalRegistry().resolve(done.uri).aliases == ()


def test_an_alias_is_moved_when_a_person_says_so(tmp_path, winner):
    tags = TAGS | {"hone.awaits": "honed"}
    registry = LocalRegistry(tmp_path)
    done = registry.publish(prove(tmp_path, winner), name="digits", tags=tags, alias=None)
    assert approve(registry, done.uri).alias == "honed"
    assert registry.resolve(done.uri).aliases == ("honed",)
    with pytest.raises(HoneError) as caught:
        registry.move_alias(done.uri, "../outside")
    assert caught.value.slug == "recipe-invalid"


@pytest.mark.attack(
    what="evidence that is changed between its proof and its publication",
    who="store",
    stopped_by="evidence is compared with its digests again",
)
def test_evidence_that_changes_after_it_was_proved_is_not_published(tmp_path, winner):
    proven = prove(tmp_path, winner)
    (proven.folder / "timings.npz").write_bytes(b"other times")
    with pytest.raises(HoneError) as caught:
        LocalRegistry(tmp_path).publish(proven, name="digits", tags=TAGS, alias="honed")
    assert caught.value.slug == "evidence-incomplete"
    assert list_names(tmp_path / "digits-hone") == []
    (proven.folder / "timings.npz").write_text("timings.npz of 1")  # as it was
    done = LocalRegistry(tmp_path).publish(proven, name="digits", tags=TAGS, alias="honed")
    assert done.version == "1"


def test_what_a_killed_publication_left_is_removed(tmp_path, winner):
    code = (
        "import os, signal; from pathlib import Path; from kedro_hone.core.machine import processes\n"
        f"home = Path({str(tmp_path / 'digits-hone')!r}); home.mkdir()\n"
        "stage = home / f'.publishing-{processes.identify_process()}'; stage.mkdir()\n"
        "(stage / 'half').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    source = Path(kedro_hone.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": str(source)})
    assert [path.name[:11] for path in (tmp_path / "digits-hone").iterdir()] == [".publishing"]
    publish(tmp_path, winner)
    assert list_names(tmp_path / "digits-hone") == ["1", "honed"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"alias": "3"}, "'3'"),
        ({"alias": "a/b"}, "'a/b'"),
        ({"alias": ".x"}, "'.x'"),
        ({"alias": ""}, "''"),
        ({"alias": "a\0"}, "null"),
        ({"alias": "a" * 300}, "255 bytes"),
        ({"name": "a" * 251}, "255 bytes"),
        ({"name": ""}, "''"),
        ({"name": "models/.."}, "'models/..'"),
        ({"name": "a\0"}, "null"),
    ],
)
def test_what_can_be_no_file_is_refused_before_anything_is_written(tmp_path, winner, names, says):
    before = list_names(tmp_path)
    assert says in LocalRegistry(tmp_path).find_problem(**{"name": None, "alias": None} | names)
    with pytest.raises(HoneError) as caught:
        publish(tmp_path, winner, **names)
    assert caught.value.slug == "recipe-invalid"
    assert says in caught.value.why
    assert [name for name in list_names(tmp_path) if not name.startswith("evidence-")] == before


@pytest.mark.parametrize("names", [{}, {"name": "a" * 250, "alias": "1.0"}, {"name": "/models/digits.onnx"}])
def test_what_can_be_a_file_is_not(names):
    assert LocalRegistry().find_problem(**{"name": None, "alias": None} | names) == ""


def test_the_same_publication_in_a_copied_project_is_the_same_version(tmp_path, winner):
    first = publish(tmp_path, winner)
    shutil.copytree(tmp_path / "digits-hone", tmp_path / "copy" / "digits-hone", symlinks=True)
    done = LocalRegistry(tmp_path / "copy").publish(prove(tmp_path, winner), name="digits", tags=TAGS, alias="honed")
    assert (done.version, first.version) == ("1", "1")
    assert list_names(tmp_path / "copy" / "digits-hone") == ["1", "honed"]


@pytest.mark.parametrize("uri", ["a\0b", "a" * 300])
def test_a_path_that_the_system_cannot_be_asked_for_is_unknown(tmp_path, uri):
    with pytest.raises(HoneError) as caught:
        LocalRegistry(tmp_path).resolve(uri)
    assert caught.value.slug == "model-unknown"


def test_a_file_is_pulled_with_its_external_data(tmp_path):
    for name in ("digits.onnx", "digits.onnx.data", "other.onnx"):
        (tmp_path / name).write_text(name)
    info = LocalRegistry(tmp_path).pull("digits.onnx", tmp_path / "pulled")
    assert info.version.startswith("sha256:")
    assert list_names(tmp_path / "pulled") == ["digits.onnx", "digits.onnx.data"]
    with pytest.raises(FileExistsError):
        LocalRegistry(tmp_path).pull("digits.onnx", tmp_path / "pulled")


def test_a_folder_is_pulled_whole_and_its_content_is_its_version(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").write_text("1")
    before = LocalRegistry(tmp_path).pull("model", tmp_path / "pulled")
    assert (tmp_path / "pulled" / "model.onnx").read_text() == "1"
    (folder / "model.onnx").write_text("2")
    assert LocalRegistry(tmp_path).resolve("model").version != before.version


def test_an_unknown_path_names_the_nearest(tmp_path):
    (tmp_path / "digits").mkdir()
    with pytest.raises(HoneError, match="Did you mean 'digits'") as caught:
        LocalRegistry(tmp_path).resolve("digist/model.onnx")
    assert caught.value.slug == "model-unknown"
    assert "config.json" in caught.value.hint  # which a model of Transformers has, and no MLmodel


def test_versions_since(tmp_path, winner):
    registry = LocalRegistry(tmp_path)
    (tmp_path / "digits.onnx").write_text("1")
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "model.pt2").write_text("1")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.me").write_text("1")
    first, cursor, _ = registry.versions_since(None)
    assert [info.name for info in first] == ["digits.onnx", "words"]
    assert not any(info.is_optimized for info in first)
    assert registry.versions_since(cursor) == ((), cursor, {})

    done = publish(tmp_path, winner, name="digits.onnx")
    (tmp_path / "words" / "model.pt2").write_text("23")
    (tmp_path / "digits.onnx").touch()
    second, cursor, _ = registry.versions_since(cursor)
    assert [(info.uri, info.is_optimized) for info in second] == [
        (done.uri, True),
        (str(tmp_path / "words"), False),
    ]
    assert registry.resolve("words").version == second[1].version
    assert registry.versions_since(cursor)[0] == ()


def test_versions_of_a_folder_that_is_missing(tmp_path):
    with pytest.raises(HoneError) as caught:
        LocalRegistry(tmp_path / "nowhere").versions_since(None)
    assert caught.value.slug == "model-unknown"
