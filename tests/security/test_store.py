"""Who can write to the store cannot put another model of the same size under a digest that was measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_project import FAST, copy_project

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, StepFacts
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord

SPECS = ({"name": "x", "dtype": "float32", "shape": (1,)},)


def swap(path: Path, old: bytes, new: bytes) -> None:
    """Change a file's bytes, and set its size, rights and times back."""
    state, content = path.stat(), path.read_bytes()
    assert old in content
    assert len(old) == len(new)
    path.chmod(0o644)
    path.write_bytes(content.replace(old, new))
    path.chmod(state.st_mode)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.fixture
def sealed(tmp_path) -> tuple[Path, Artifact]:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_bytes(b"the model that was validated")
    return tmp_path / "store", Store(tmp_path / "store").seal(
        tmp_path / "model", format="onnx", inputs=SPECS, outputs=SPECS
    )


@pytest.mark.attack(
    what="a stored model that was exchanged for another of the same size and time",
    who="store",
    stopped_by="every byte is compared with its digest before its first use",
)
@pytest.mark.parametrize("was_read", [False, True], ids=["before it was read", "after it was read"])
def test_an_object_with_other_bytes_of_the_same_size_is_not_used(sealed, was_read):
    root, artifact = sealed
    store = Store(root)
    if was_read:
        store.locate(artifact)
    swap(root / "objects" / artifact.digest.removeprefix("sha256:") / "files" / "model.onnx", b"that", b"THAT")
    assert store.find_artifact(artifact.digest) is None
    with pytest.raises(HoneError) as caught:
        store.locate(artifact)
    assert caught.value.slug == "store-missing"


@pytest.mark.attack(
    what="data in the store that were exchanged",
    who="store",
    stopped_by="every byte is compared with its digest before its first use",
)
def test_a_tree_with_other_bytes_of_the_same_size_is_not_used(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.npz").write_bytes(b"rows")
    store = Store(tmp_path / "store")
    swap(store.store_tree("k", tmp_path / "rows") / "a.npz", b"rows", b"worm")
    assert store.find_tree("k") is None


@pytest.mark.attack(
    what="a winner made faster behind its validation", who="store", stopped_by="it is made and validated again"
)
def test_a_run_does_not_measure_what_was_swapped(unpublished, tmp_path):
    """A winner made five times as fast behind the back of its validation: it is made again, as it was validated."""
    project = copy_project(unpublished, tmp_path)
    outcome = project.read_outcomes()[FAST]
    model = project.store.root / "objects" / outcome["digest"].removeprefix("sha256:") / "files" / "model.json"
    honest = model.read_bytes()
    swap(model, honest, honest.replace(b"6", b"0"))
    done = project.run("--pipelines", "assess")
    assert "was changed since it was sealed" in " ".join(done.output.split())
    assert model.read_bytes() == honest
    assert project.evidence["counts"]["builds"] in {1, 2}  # two steps lead to it, and may run next to each other


@pytest.mark.attack(
    what="a record of a step that gives a stored model other run options, shapes or a runtime",
    who="store",
    stopped_by="the record is compared with what was sealed with the model",
)
def test_a_record_says_other_things_of_an_artifact_than_were_sealed(sealed):
    root, artifact = sealed
    facts = StepFacts(key="k", adaptor="a.b", run="r", folder="steps/1", seconds=1, outcome="artifact")
    store = Store(root)
    store.record("k", StepRecord(facts=facts, outcome=artifact, created="2026-01-01", inputs={}))
    assert store.find("k").outcome == artifact
    path = root / "steps" / "k.json"
    path.write_text(path.read_text().replace('"run_options": {}', '"run_options": {"CACHE_DIR": "/tmp"}'))
    assert "CACHE_DIR" in path.read_text()
    assert Store(root).find("k") is None
