"""Another version, a person or an attacker changes the store, or what a run reads, before it or meanwhile."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from small_project import copy_project

from hone_runtime.errors import HoneError
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.core.store.artifacts import Store, _wrap


@pytest.mark.attack(
    what="values of an older or newer version of kedro-hone on one store",
    who="store",
    stopped_by="what no model of ours reads is made again",
)
def test_values_that_another_version_wrote_are_made_again(unpublished, tmp_path):
    """An older or a newer version keeps less or more under a key: well-formed, with the right digest."""
    project = copy_project(unpublished, tmp_path)
    before = project.evidence
    values = sorted((project.store.root / "values").iterdir())
    assert len(values) > 3
    for number, path in enumerate(values):
        value = json.loads(path.read_text())["value"]
        other = {} if number % 2 else {**value, "splits": 3, "from_a_newer_version": True}
        path.write_text(json.dumps(_wrap(f"values/{path.name}", other)))
    project.run("--pipelines", "assess")
    assert project.evidence["counts"]["builds"] == 0
    assert project.evidence["counts"]["validations"] == before["counts"]["validations"]
    for path in values:
        assert "from_a_newer_version" not in path.read_text()
        assert project.store.read_value(path.stem) != {}


@pytest.mark.attack(
    what="an artifact that a newer version sealed",
    who="store",
    stopped_by="what is not understood is not used",
)
def test_what_a_newer_version_sealed_is_not_taken_for_ours(tmp_path):
    """Its manifest fits its digest, and describes the artifact by a word that this version does not know."""
    store, spec = Store(tmp_path / "store"), [{"name": "x", "dtype": "float32", "shape": [1]}]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_bytes(b"weights")
    ours = store.seal(tmp_path / "model", format="onnx", inputs=spec, outputs=spec)
    place = store.root / "objects" / ours.digest.removeprefix("sha256:")
    theirs = Manifest.measure(place / "files", {**ours.manifest(), "rounding": "stochastic"})
    other = place.with_name(theirs.digest.removeprefix("sha256:"))
    shutil.copytree(place, other)
    (other / "artifact.json").unlink()
    theirs.write(other / "artifact.json")
    assert store.find_artifact(theirs.digest) is None
    assert store.find_artifact(ours.digest) == ours
    assert (other / "files" / "model.onnx").read_bytes() == b"weights"  # the newer version finds its own again


@contextmanager
def again_and_again(do):
    """Do something in a thread, until the end."""
    ends = threading.Event()

    def work() -> None:
        while not ends.is_set():
            with suppress(OSError):
                do()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(600)


def seek(ask, folder, kept) -> set[str]:
    """Ask for some seconds while a folder is deleted and copied back; return the slugs, and '' for what was found."""

    def delete() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        time.sleep(0.005)  # a busy machine would otherwise hardly ever find it whole

    shutil.copytree(folder, kept)
    seen, number, start = set(), 0, time.monotonic()
    with again_and_again(delete):
        while time.monotonic() < start + 2 or (len(seen) < 2 and time.monotonic() < start + 600):
            number += 1
            try:
                ask(number)
                seen.add("")
            except HoneError as error:
                seen.add(error.slug)
    return seen


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models" / "net" / "deep").mkdir(parents=True)
    for number in range(20):
        (tmp_path / "models" / "net" / "deep" / f"{number}.bin").write_bytes(b"weights" * number)
    return tmp_path / "models" / "net"


@pytest.mark.attack(
    what="files of the store that are deleted while they are read",
    who="store",
    stopped_by="a miss, in words",
)
@pytest.mark.parametrize("what", ["locate", "measure"])
def test_files_of_the_store_that_are_deleted_while_they_are_read_are_missing(folder, tmp_path, what):
    store, spec = Store(tmp_path / "store"), [{"name": "x", "dtype": "float32", "shape": [1]}]
    artifact = store.seal(folder, format="onnx", inputs=spec, outputs=spec)
    place = store.root / "objects" / artifact.digest.removeprefix("sha256:")
    seen = seek(lambda _: getattr(store, what)(artifact), place, tmp_path / "kept")
    assert seen <= {"", "store-missing"}
    assert "store-missing" in seen


@pytest.mark.attack(
    what="a model that is deleted while it is pulled",
    who="registry",
    stopped_by="an error, in words",
)
def test_a_model_that_is_deleted_while_it_is_pulled_is_an_error_for_people(folder, tmp_path):
    registry = LocalRegistry(tmp_path)
    seen = seek(lambda number: registry.pull("models/net", tmp_path / f"pulled-{number}"), folder, tmp_path / "kept")
    assert seen <= {"", "model-unknown"}
    assert "model-unknown" in seen


@pytest.mark.attack(
    what="a model that is changed while it is pulled",
    who="registry",
    stopped_by="its digest is compared after the copy",
)
def test_a_model_that_is_changed_while_it_is_pulled_is_not_taken_for_the_version_that_was_asked_for(
    folder, tmp_path, monkeypatch
):
    copytree = shutil.copytree

    def change_and_copy(*args, **kwargs):
        (folder / "deep" / "3.bin").write_bytes(b"WEIGHTS" * 3)
        return copytree(*args, **kwargs)

    monkeypatch.setattr(shutil, "copytree", change_and_copy)
    with pytest.raises(HoneError) as caught:
        LocalRegistry(tmp_path).pull("models/net", tmp_path / "pulled")
    assert caught.value.slug == "model-unknown"
    assert "changed" in caught.value.what


@pytest.mark.attack(
    what="a store that is emptied while a run reads it",
    who="store",
    stopped_by="the run ends in words, and the next one makes all of it again",
)
def test_a_store_that_is_emptied_while_a_run_reads_it_ends_the_run_in_words(unpublished, tmp_path):
    """And the next run makes all of it again, also steps that a newer version recorded."""
    project = copy_project(unpublished, tmp_path)
    builds = project.evidence["counts"]["builds"]
    with project.start("run", "--pipelines", "assess") as process:
        launches = len(list(project.work.glob("runs/*/launches/*")))
        while process.poll() is None and len(list(project.work.glob("runs/*/launches/*"))) == launches:
            time.sleep(0.02)
        for place in (*(project.store.root / "objects").iterdir(), *(project.store.root / "trees").iterdir()):
            shutil.rmtree(place)
        output, _ = process.communicate(timeout=600)
    assert process.returncode == 3, output
    assert re.search("hone explain (store-missing|source-failed)", output), output
    assert "No such file" in output or "store-missing" in output, output
    for path in (project.store.root / "steps").iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "from_a_newer_version": 1}))
    project.run("--pipelines", "assess")
    assert project.evidence["verdict"] == "PASS"
    assert project.evidence["counts"]["builds"] == builds
    project.check_store()
