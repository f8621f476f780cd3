from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values import digest as digest_module
from hone_runtime.values.artifact import Artifact, Shape, StepFacts, TensorSpec
from hone_runtime.values.digest import digest_file, digest_json
from hone_runtime.values.manifest import Manifest, UnsealableError, copy_tree, read_sealed
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from kedro_hone.core.store import disk as disk_module
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord

SPECS = {
    "inputs": (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),),
    "outputs": (TensorSpec(name="y", dtype="float32", shape=("batch", 2)),),
}
BATCH1 = Shape(name="batch1", sizes={"batch": 1})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def write_model(folder: Path, text: str = "model") -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "model.onnx").write_text(text)
    (folder / "deep" / "weights.bin").write_text("weights")
    return folder


def seal(store: Store, folder: Path, **changes) -> Artifact:
    return store.seal(folder, format="onnx", **{**SPECS, **changes})


def make_record(outcome, key: str = "k") -> StepRecord:
    return StepRecord(
        facts=StepFacts(key=key, adaptor="a.b", run="r", folder="steps/001-a.b", seconds=1.5, outcome=outcome.kind),
        outcome=outcome,
        created="2026-01-01T00:00:00+00:00",
        inputs={"seed": 1},
    )


def list_objects(store: Store) -> list[Path]:
    return sorted((store.root / "objects").iterdir())


def test_a_folder_from_elsewhere_is_copied(store, tmp_path):
    folder = write_model(tmp_path / "model")
    artifact = seal(
        store, folder, runtime="onnxruntime", run_options={"a": 1}, static_shapes=[BATCH1], metadata={"b": 2}
    )
    assert (store.locate(artifact) / "deep" / "weights.bin").read_text() == "weights"
    assert (folder / "model.onnx").exists()
    assert artifact.digest.startswith("sha256:")
    assert store.find_artifact(artifact.digest) == artifact
    assert read_sealed(store.root / "objects" / artifact.digest.removeprefix("sha256:"))


def test_a_folder_of_a_workspace_is_moved(store):
    with store.workspace() as workspace:
        folder = write_model(workspace / "output")
        folder.chmod(0o555)  # as a worker may leave it
        artifact = seal(store, folder)
        assert not folder.exists()
    assert not workspace.exists()
    assert store.locate(artifact).is_relative_to(store.root / "objects")
    assert stat.S_IMODE(store.locate(artifact).stat().st_mode) == 0o755
    assert list((store.root / "tmp").iterdir()) == []


def test_a_whole_workspace_can_be_sealed(store):
    with store.workspace() as workspace:
        (workspace / "model.onnx").write_text("model")
        artifact = seal(store, workspace)
    assert (store.locate(artifact) / "model.onnx").read_text() == "model"


def test_files_are_read_only_and_nothing_of_ours_lies_among_them(store, tmp_path):
    artifact = seal(store, write_model(tmp_path / "model"))
    files = [path for path in store.locate(artifact).rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["model.onnx", "weights.bin"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o444}
    assert (store.locate(artifact).parent / "artifact.json").exists()


def test_sealing_the_same_again_is_the_same_artifact(store, tmp_path):
    first = seal(store, write_model(tmp_path / "one"))
    assert seal(store, write_model(tmp_path / "two")) == first
    assert seal(Store(tmp_path / "other"), write_model(tmp_path / "three")).digest == first.digest
    assert len(list_objects(store)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"run_options": {"precision": "bf16"}},
        {"runtime": "openvino"},
        {"static_shapes": (BATCH1,)},
        {"metadata": {"opset": 17}},
        {"inputs": ()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_attributes_are_part_of_the_artifact(store, tmp_path, changes):
    folder = write_model(tmp_path / "model")
    assert seal(store, folder).digest != seal(store, folder, **changes).digest
    assert len(list_objects(store)) == 2


def test_two_artifacts_of_the_same_files_share_their_bytes(store, tmp_path):
    folder = write_model(tmp_path / "model")
    (folder / "model.onnx").rename(folder / "model.xml")
    first = seal(store, folder)
    second = seal(store, store.locate(first), run_options={"precision": "bf16"})
    assert (store.locate(second) / "model.xml").samefile(store.locate(first) / "model.xml")
    assert read_sealed(store.root / "objects" / first.digest.removeprefix("sha256:"))
    assert read_sealed(store.root / "objects" / second.digest.removeprefix("sha256:"))


def test_what_a_step_leaves_as_it_was_is_kept_once(store):
    """A compile step of OpenVINO writes the same weights again; a worker can make no link of what it reads."""
    with store.workspace() as workspace:
        folder = write_model(workspace / "source")
        (folder / "model.onnx").rename(folder / "model.xml")
        parent = seal(store, folder)
    with store.workspace() as workspace:
        folder = write_model(workspace / "output", text="MODEL")
        (folder / "model.onnx").rename(folder / "model.xml")
        shutil.copytree(folder / "deep", folder / "again")
        made = seal(store, folder, parent=parent)
    weights = store.locate(parent) / "deep" / "weights.bin"
    assert (store.locate(made) / "deep" / "weights.bin").samefile(weights)
    assert (store.locate(made) / "again" / "weights.bin").samefile(weights)
    assert (store.locate(made) / "model.xml").read_text() == "MODEL"
    assert (store.locate(parent) / "model.xml").read_text() == "model"
    for artifact in (parent, made):
        assert read_sealed(store.root / "objects" / artifact.digest.removeprefix("sha256:"))


def test_weights_next_to_a_model_in_onnx_have_one_name(store, tmp_path):
    """The library refuses to read others; a session keeps its parent's files, and a run's folder the winner's."""
    with store.workspace() as workspace:
        parent = seal(store, write_model(workspace / "source"))
    with store.workspace() as workspace:
        made = seal(store, write_model(workspace / "output", text="MODEL"), parent=parent)
    with store.workspace() as workspace:
        folder = write_model(workspace / "output")
        (folder / "model.onnx").rename(folder / "model.xml")
        converted = seal(store, folder, parent=parent)
    copy_tree(store.locate(parent), tmp_path / "winner", share=True)
    again = seal(store, store.locate(parent), metadata={"another": 1})
    for artifact in (parent, made, converted, again):
        assert (store.locate(artifact) / "deep" / "weights.bin").stat().st_nlink == 1


def test_a_parent_that_is_gone_is_no_error(store):
    with store.workspace() as workspace:
        parent = seal(store, write_model(workspace / "source"))
        shutil.rmtree(store.root / "objects")
        (store.root / "objects").mkdir()
        made = seal(store, write_model(workspace / "output"), parent=parent)
    assert (store.locate(made) / "model.onnx").read_text() == "model"


def test_a_link_inside_becomes_a_file(store):
    with store.workspace() as workspace:
        folder = write_model(workspace / "output")
        (folder / "link.bin").symlink_to(folder / "deep" / "weights.bin")
        artifact = seal(store, folder)
    assert not (store.locate(artifact) / "link.bin").is_symlink()
    assert (store.locate(artifact) / "link.bin").read_text() == "weights"


REFUSED = {
    "leads out": "link is no file, or a link to something outside",
    "leads nowhere": "link is no file, or a link to something outside",
    "folder": "link is no file, or a link to something outside",
    "pipe": "pipe is (no file|neither a file nor a folder)",
    "empty": "output holds no file",
    "missing": "output is not a folder",
}


@pytest.mark.parametrize("where", ["store", "elsewhere"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_model_is_refused(store, tmp_path, what, where):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with store.workspace() as workspace:
        folder = (workspace if where == "store" else tmp_path) / "output"
        if what not in {"empty", "missing"}:
            write_model(folder)
        if what == "leads out":
            (folder / "link").symlink_to(secret)
        elif what == "leads nowhere":
            (folder / "link").symlink_to("nowhere")
        elif what == "folder":
            (folder / "link").symlink_to(tmp_path)
        elif what == "pipe":
            os.mkfifo(folder / "pipe")
        elif what == "empty":
            folder.mkdir()
        with pytest.raises(UnsealableError, match=REFUSED[what]):
            seal(store, folder)
    assert list_objects(store) == []
    assert list((store.root / "tmp").iterdir()) == []
    assert stat.S_IMODE(secret.stat().st_mode) != 0o444


@pytest.mark.parametrize("damage", ["file", "size", "manifest", "cut manifest", "bytes", "all"])
def test_a_damaged_object_is_replaced(store, tmp_path, damage):
    artifact = seal(store, write_model(tmp_path / "model"))
    files = store.locate(artifact)
    place = files.parent
    for path in place.rglob("*"):
        path.chmod(0o755)
    if damage == "file":
        (files / "model.onnx").unlink()
    elif damage == "size":
        (files / "model.onnx").write_text("mod")
    elif damage == "bytes":
        (files / "model.onnx").write_text("m0del")
    elif damage == "manifest":
        (place / "artifact.json").unlink()
    elif damage == "cut manifest":
        (place / "artifact.json").write_text("{")
    else:
        (place / "artifact.json").rename(tmp_path / "x")
        files.rename(tmp_path / "y")
        place.rmdir()
        place.write_text("not even a folder")
    assert not read_sealed(store.root / "objects" / artifact.digest.removeprefix("sha256:"))
    assert store.find_artifact(artifact.digest) is None
    with pytest.raises(HoneError) as caught:
        store.locate(artifact)
    assert (caught.value.slug, artifact.digest in caught.value.what) == ("store-missing", True)
    assert seal(store, tmp_path / "model") == artifact
    assert read_sealed(store.root / "objects" / artifact.digest.removeprefix("sha256:"))
    assert list((store.root / "tmp").iterdir()) == []


def test_records_are_found_again(store, tmp_path):
    assert store.find("k") is None
    artifact = seal(store, write_model(tmp_path / "model"))
    for outcome in (
        artifact,
        Refused(by="a.b", reason="no"),
        Failed(by="a.b", failure=FailureClass.CONVERT, reason="no"),
    ):
        store.record("k", make_record(outcome))
        assert store.find("k") == make_record(outcome)
        assert Store(store.root).find("k") == make_record(outcome)


@pytest.mark.parametrize("failure", FailureClass)
def test_transient_failures_are_never_recorded(store, failure):
    store.record("k", make_record(Failed(by="a.b", failure=failure, reason="no")))
    assert (store.find("k") is None) == failure.transient


def test_a_store_may_be_moved(store, tmp_path):
    artifact = seal(store, write_model(tmp_path / "model"))
    store.record("k", make_record(artifact))
    moved = Store(store.root.rename(tmp_path / "moved"))
    outcome = moved.find("k").outcome
    assert outcome.digest == artifact.digest
    assert (moved.locate(outcome) / "model.onnx").exists()
    assert moved.locate(outcome).is_relative_to(tmp_path / "moved")


@pytest.mark.parametrize("damage", ["artifact.json", "files/model.onnx"])
def test_a_record_without_its_artifact_is_a_miss(store, tmp_path, damage):
    artifact = seal(store, write_model(tmp_path / "model"))
    store.record("k", make_record(artifact))
    (store.locate(artifact).parent / damage).unlink()
    assert store.find("k") is None
    seal(store, tmp_path / "model")
    assert store.find("k").outcome == artifact


@pytest.mark.parametrize("text", ["", '{"key": "k"', '{"key": "k"}', "[]", "3", "\x00" * 10, b"\xff\xfe"])
def test_a_damaged_record_is_a_miss_and_removed(store, text):
    path = store.root / "steps" / "k.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert store.find("k") is None
    assert not path.exists()


def test_a_record_with_a_damaged_manifest_inside_is_a_miss(store, tmp_path):
    artifact = seal(store, write_model(tmp_path / "model"))
    store.record("k", make_record(artifact))
    manifest = store.locate(artifact).parent / "artifact.json"
    content = json.loads(manifest.read_text())
    manifest.chmod(0o644)
    manifest.write_text(json.dumps({**content, "attributes": {"format": "onnx"}}))
    assert store.find("k") is None


def test_values_are_kept_and_replaced(store):
    assert store.read_value("v") is None
    store.write_value("v", {"a": [1, 2.5, None]})
    assert store.read_value("v") == {"a": [1, 2.5, None]}
    store.write_value("v", 3)
    assert store.read_value("v") == 3
    (store.root / "values" / "v.json").write_text("{")
    assert store.read_value("v") is None
    assert not (store.root / "values" / "v.json").exists()


def test_trees_are_kept_and_the_first_stands(store, tmp_path):
    assert store.find_tree("t") is None
    kept = store.store_tree("t", write_model(tmp_path / "one"))
    assert store.find_tree("t") == kept
    assert store.store_tree("t", write_model(tmp_path / "two", "other")) == kept
    assert (kept / "model.onnx").read_text() == "model"
    (kept / "model.onnx").unlink()
    assert store.find_tree("t") is None
    assert store.store_tree("t", tmp_path / "two") == kept
    assert (kept / "model.onnx").read_text() == "other"


def test_a_tree_that_a_node_needs_is_located_or_explained(store, tmp_path):
    kept = store.store_tree("samples", write_model(tmp_path / "made"))
    assert store.locate_tree("samples") == kept

    (kept / "model.onnx").unlink()
    with pytest.raises(HoneError) as caught:
        store.locate_tree("samples")

    assert caught.value.slug == "store-missing"
    assert caught.value.what == f"The store in {store.root} does not contain the files of samples."
    assert "The store was emptied or damaged since" in caught.value.why
    assert "Run all pipelines again" in caught.value.hint


def test_the_size_of_an_artifact_is_that_of_its_files(store, tmp_path):
    artifact = seal(store, write_model(tmp_path / "model", "é" * 10))
    assert store.measure(artifact) == 20 + len("weights")

    with pytest.raises(HoneError, match="does not contain the artifact") as caught:
        store.measure(artifact.model_copy(update={"digest": "sha256:00"}))
    assert caught.value.what == f"The store in {store.root} does not contain the artifact sha256:00 (onnx)."


@pytest.mark.parametrize("key", ["", "../x", "a/b", ".hidden", "sha256:../x"])
def test_keys_cannot_lead_out_of_the_store(store, key):
    with pytest.raises(ValueError, match="is not a key"):
        store.write_value(key, 1)


def test_a_digest_is_a_key(store):
    store.write_value("sha256:ab", 1)
    assert store.read_value("ab") == 1


def test_letters_digits_dashes_dots_and_underscores_are_a_key(store):
    key = "_AZaz09.-"
    store.write_value(key, 1)
    assert store.read_value(key) == 1
    assert (store.root / "values" / f"{key}.json").exists()


@pytest.mark.parametrize("name", ["open", "seal", "store_tree", "write_value", "record", "workspace", "find"])
def test_whatever_writes_says_which_disk_is_full(store, tmp_path, monkeypatch, name):
    folder = write_model(tmp_path / "model")
    (store.root / "steps" / "damaged.json").write_text("{")
    calls = {
        "open": lambda: Store(store.root),
        "seal": lambda: seal(store, folder),
        "store_tree": lambda: store.store_tree("t", folder),
        "write_value": lambda: store.write_value("v", 1),
        "record": lambda: store.record("k", make_record(Refused(by="a.b", reason="no"))),
        "workspace": lambda: store.workspace().__enter__(),
        "find": lambda: store.find("damaged"),  # which removes what is damaged
    }

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(HoneError) as caught:
        calls[name]()

    assert caught.value.slug == "store-full"
    assert str(store.root) in caught.value.what


@pytest.mark.parametrize(("place", "name"), [(shutil, "copyfile"), (Path, "write_text"), (os, "fsync")])
def test_a_disk_that_becomes_full_while_an_artifact_is_sealed_is_explained(store, tmp_path, monkeypatch, place, name):
    folder = write_model(tmp_path / "model")

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(place, name, refuse)
    with pytest.raises(HoneError) as caught:
        seal(store, folder)

    assert (caught.value.slug, caught.value.what) == ("store-full", f"The disk that holds {store.root} is full.")
    assert list_objects(store) == []
    assert list((store.root / "tmp").iterdir()) == []


def test_all_of_an_artifact_is_on_the_disk_before_it_appears(store, tmp_path, monkeypatch):
    folder, synced = write_model(tmp_path / "model"), []
    sync = os.fsync

    def note(handle):
        synced.append((Path(f"/proc/self/fd/{handle}").readlink(), len(list_objects(store))))
        sync(handle)

    monkeypatch.setattr(os, "fsync", note)
    place = store.locate(seal(store, folder)).parent

    *before, last = synced
    stage = min(path for path, _ in before)
    inside = {(path.relative_to(stage), appeared) for path, appeared in before}
    assert inside == {(path.relative_to(place), 0) for path in (place, *place.rglob("*"))}
    assert last == (store.root / "objects", 1)


def test_a_damaged_object_that_another_process_removes_meanwhile_is_replaced(store, tmp_path, monkeypatch):
    place = store.locate(seal(store, write_model(tmp_path / "model"))).parent

    def remove(found):
        shutil.rmtree(found)
        return False

    monkeypatch.setattr(disk_module, "read_sealed", remove)
    seal(store, tmp_path / "model")
    assert read_sealed(place)


def test_an_error_in_a_workspace_is_the_callers(store):
    with pytest.raises(PermissionError), store.workspace():
        raise PermissionError(13, "mine")


def test_a_workspace_is_removed_after_an_error(store):
    with pytest.raises(ZeroDivisionError), store.workspace() as workspace:
        _ = 1 / 0
    assert not workspace.exists()


def swap(store: Store, room: str, name: str, other: str) -> None:
    """Put the sealed folder of one name in the place of another."""
    folder = store.root / room
    shutil.rmtree(folder / name)
    shutil.copytree(folder / other, folder / name)


def test_an_artifact_in_the_place_of_another_is_replaced_when_it_is_sealed_again(store, tmp_path):
    one = seal(store, write_model(tmp_path / "one", "one"))
    two = seal(store, write_model(tmp_path / "two", "two"))
    swap(store, "objects", *(artifact.digest.removeprefix("sha256:") for artifact in (one, two)))
    assert store.find_artifact(one.digest) is None

    assert seal(store, tmp_path / "one") == one
    assert (store.locate(one) / "model.onnx").read_text() == "one"


def test_a_manifest_whose_attributes_were_edited_is_not_found(store, tmp_path):
    artifact = seal(store, write_model(tmp_path / "model"))
    path = store.locate(artifact).parent / "artifact.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"onnx"', '"openvino"'))

    assert store.find_artifact(artifact.digest) is None


def test_a_manifest_without_files_is_no_artifact(store, tmp_path):
    artifact = seal(store, write_model(tmp_path / "model"))
    empty = Manifest.measure(tmp_path / "nothing", artifact.manifest())
    place = store.root / "objects" / empty.digest.removeprefix("sha256:")
    (place / "files").mkdir(parents=True)
    empty.write(place / "artifact.json")

    assert store.find_artifact(empty.digest) is None


@pytest.mark.parametrize("attributes", [{"format": "onnx"}, {"format": "onnx", **SPECS, "newer": 1}, None, [1]])
def test_an_artifact_that_this_version_does_not_know_is_not_found(store, tmp_path, attributes):
    """Another version may have put it into a store that machines share."""
    plain = json.loads(json.dumps(attributes, default=lambda spec: spec.model_dump(mode="json")))
    manifest = Manifest.measure(write_model(tmp_path / "model"), plain)
    place = store.root / "objects" / manifest.digest.removeprefix("sha256:")
    place.mkdir()
    (tmp_path / "model").rename(place / "files")
    manifest.write(place / "artifact.json")

    assert read_sealed(place)
    assert store.find_artifact(manifest.digest) is None


def test_what_another_process_removes_meanwhile_is_not_used(store, tmp_path, monkeypatch):
    artifact = seal(store, write_model(tmp_path / "model"))

    def remove_first(path):
        path.unlink()
        return digest_file(path)

    with monkeypatch.context() as patch:
        patch.setattr(digest_module, "digest_file", remove_first)
        assert store.find_artifact(artifact.digest) is None
    assert seal(store, tmp_path / "model") == artifact


def test_a_tree_in_the_place_of_another_is_not_found(store, tmp_path):
    store.store_tree("one", write_model(tmp_path / "one", "one"))
    store.store_tree("two", write_model(tmp_path / "two", "two"))
    swap(store, "trees", "one", "two")

    assert store.find_tree("one") is None
    assert (store.store_tree("one", tmp_path / "one") / "model.onnx").read_text() == "one"
    assert store.find_tree("one") is not None


def test_a_record_of_another_key_is_not_found(store):
    store.record("a", make_record(Refused(by="a.b", reason="no"), "a"))
    (store.root / "steps" / "b.json").write_bytes((store.root / "steps" / "a.json").read_bytes())

    assert store.find("a") is not None
    assert store.find("b") is None
    assert not (store.root / "steps" / "b.json").exists()


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"rows": 5}', '{"value": {"rows": 4}}'])
def test_a_value_that_is_not_the_one_that_was_written_is_removed(store, text):
    store.write_value("v", {"rows": 4})
    path = store.root / "values" / "v.json"
    path.write_text(text)

    assert store.read_value("v") is None
    assert not path.exists()


def test_the_file_of_a_value_is_the_same_in_every_version(store):
    """Machines that share a store need not have the same version, and who compares two files sees what changed."""
    value = {"rows": 4, "classes": 2}
    store.write_value("sha256:ab", value)

    content = {"digest": digest_json(["values/ab.json", value]), "value": {"classes": 2, "rows": 4}}
    assert (store.root / "values" / "ab.json").read_text() == json.dumps(content, indent=1)


def test_a_value_of_another_key_is_removed(store):
    store.write_value("v", {"rows": 4})
    store.write_value("w", {"rows": 5})
    (store.root / "values" / "v.json").write_bytes((store.root / "values" / "w.json").read_bytes())

    assert store.read_value("v") is None
    assert store.read_value("w") == {"rows": 5}


@pytest.mark.parametrize("value", [{10: "a", 9: ("b", 0.1)}, float("inf"), "text", [None]])
def test_any_json_value_is_read_as_it_was_written(store, value):
    store.write_value("v", value)

    assert store.read_value("v") == json.loads(json.dumps(value))


def test_what_is_no_regular_file_is_no_record(tmp_path):
    store = Store(tmp_path / "store")
    os.mkfifo(store.root / "steps" / "pipe.json")
    (store.root / "steps" / "link.json").symlink_to("/dev/zero")
    (store.root / "steps" / "folder.json").mkdir()
    assert store.read_records() == []
