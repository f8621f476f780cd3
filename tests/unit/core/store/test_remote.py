from __future__ import annotations

import json
import pickle
import stat
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.manifest import Manifest, read_sealed
from hone_runtime.values.manifest import _digest as manifest_digest
from hone_runtime.values.outcome import Refused
from kedro_hone.core.store import remote as remote_module
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.remote import Remote
from kedro_hone.core.store.steps import StepRecord

KEY = "0" * 64


@pytest.fixture
def url(tmp_path):
    """A storage of this process's memory, which has the interface of an object storage: no folders, no renames."""
    url = f"memory:/{tmp_path.as_posix().replace('[', '').replace(']', '')}/store"
    yield url
    files, root = fsspec.core.url_to_fs(url)
    if files.exists(root):
        files.rm(root, recursive=True)


@pytest.fixture
def machines(url, tmp_path) -> tuple[Store, Store]:
    return tuple(Store(tmp_path / name, remote=Remote(url)) for name in ("one", "two"))


def seal(store: Store, text: str = "model", **changes) -> Artifact:
    with store.workspace() as workspace:
        (workspace / "output" / "deep").mkdir(parents=True)
        (workspace / "output" / "model.onnx").write_text(text)
        (workspace / "output" / "deep" / "weights.bin").write_text("weights")
        return store.seal(workspace / "output", **{"format": "onnx", "inputs": (), "outputs": (), **changes})


def record(outcome) -> StepRecord:
    return StepRecord(
        facts=StepFacts(key=KEY, adaptor="a.b", run="r", folder="steps/001-a.b", seconds=1, outcome=outcome.kind),
        outcome=outcome,
        created="now",
        inputs={},
    )


def list_remote(url: str) -> list[str]:
    files, root = fsspec.core.url_to_fs(url)
    return sorted(name.removeprefix(f"{root}/") for name in files.find(root))


def read_files(store: Store, digest: str) -> dict[str, str]:
    folder = store.root / "objects" / digest.removeprefix("sha256:") / "files"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_one_machine_made_another_finds(machines):
    one, two = machines
    artifact = seal(one, runtime="onnxruntime")
    one.record(KEY, record(artifact))

    found = two.find(KEY).outcome

    assert (found.digest, found.manifest()) == (artifact.digest, artifact.manifest())
    assert read_files(two, found.digest) == {"model.onnx": "model", "deep/weights.bin": "weights"}
    assert read_sealed(two.locate(found).parent)
    assert all(not path.stat().st_mode & 0o222 for path in (two.root / "objects").rglob("*") if path.is_file())


def test_a_tree_and_a_value_are_shared_too(machines, tmp_path):
    one, two = machines
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "x.npz").write_bytes(b"x")
    one.store_tree("samples", tmp_path / "made")
    one.write_value("v", {"a": 1})

    assert (two.find_tree("samples") / "x.npz").read_bytes() == b"x"
    assert two.read_value("v") == {"a": 1}


def test_a_value_that_another_machine_changed_is_read_anew(machines):
    one, two = machines
    one.write_value("v", 1)
    assert two.read_value("v") == 1
    two.write_value("v", 2)

    assert one.read_value("v") == 2


def test_what_nobody_made_is_not_found(machines):
    one, _ = machines

    assert one.find_artifact(KEY) is None
    assert one.find(KEY) is None
    assert one.find_tree(KEY) is None
    assert one.read_value("v") is None


def test_a_lost_cache_costs_nothing_but_a_download(machines, tmp_path, url):
    artifact = seal(machines[0])

    third = Store(tmp_path / "three", remote=Remote(url))

    assert third.find_artifact(artifact.digest) is not None


def test_a_damaged_cache_is_downloaded_again(machines):
    one, _ = machines
    artifact = seal(one)
    file = one.root / "objects" / artifact.digest.removeprefix("sha256:") / "files" / "model.onnx"
    file.chmod(0o644)
    file.write_text("")

    assert one.find_artifact(artifact.digest) is not None
    assert read_files(one, artifact.digest)["model.onnx"] == "model"


@pytest.mark.attack(
    what="an object of the shared store that was changed",
    who="store",
    stopped_by="every byte is compared after the download",
)
@pytest.mark.parametrize("damage", ["changed", "removed", "manifest"])
def test_a_damaged_download_is_a_miss_and_is_uploaded_again(machines, url, damage):
    one, two = machines
    digest = seal(one).digest
    files, root = fsspec.core.url_to_fs(url)
    place = f"{root}/objects/{digest.removeprefix('sha256:')}"
    if damage == "changed":
        files.pipe_file(f"{place}/files/model.onnx", b"MODEL")  # of the same size
    elif damage == "removed":
        files.rm_file(f"{place}/files/model.onnx")
    else:
        files.pipe_file(f"{place}/artifact.json", b"{")

    assert two.find_artifact(digest) is None
    assert not read_files(two, digest)
    seal(one)
    assert two.find_artifact(digest) is not None


def test_an_upload_that_ended_early_is_a_miss(machines, url):
    one, two = machines
    digest = seal(one).digest
    files, root = fsspec.core.url_to_fs(url)
    files.rm_file(f"{root}/objects/{digest.removeprefix('sha256:')}/artifact.json")

    assert two.find_artifact(digest) is None


def test_what_is_not_there_is_neither_downloaded_nor_removed(url, tmp_path):
    remote = Remote(url)

    assert remote.pull(f"objects/{KEY}", tmp_path) is False
    assert list(tmp_path.iterdir()) == []
    remote.remove("values/v.json")
    assert remote.read("values/v.json") is None


def test_downloaded_files_are_read_only_and_their_folders_are_not(machines):
    one, two = machines
    digest = seal(one).digest
    place = two.locate(two.find_artifact(digest))

    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in (place, *place.rglob("*"))} == {
        "files": 0o755,
        "model.onnx": 0o444,
        "deep": 0o755,
        "weights.bin": 0o444,
    }


def test_a_value_has_the_same_bytes_here_and_there(machines, tmp_path):
    value = {"b": "é", "a": [1]}
    local = Store(tmp_path / "local")
    local.write_value("v", value)
    machines[0].write_value("v", value)

    text = (local.root / "values" / "v.json").read_text()
    assert json.loads(text)["value"] == value
    assert machines[1]._remote.read("values/v.json").decode() == text


def test_options_reach_the_file_system(tmp_path):
    url = f"file://{tmp_path}/store"
    with pytest.raises(HoneError) as caught:  # it wants folders, and was not told to make them
        Remote(url).write("values/v.json", b"1")
    assert caught.value.slug == "store-unreachable"

    Remote(url, {"auto_mkdir": True}).write("values/v.json", b"1")

    assert (tmp_path / "store" / "values" / "v.json").read_bytes() == b"1"


def test_where_files_need_folders_they_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_module, "_WITH_FOLDERS", frozenset({"file"}))  # as sftp, which needs a server
    remote = Remote(f"file://{tmp_path}/store")
    for name in ("values/v.json", "values/w.json", "objects/x/files/deep/y"):
        remote.write(name, b"1")
        assert (tmp_path / "store" / name).read_bytes() == b"1"


def test_each_remote_has_transactions_of_its_own(url):
    assert Remote(url)._files is not Remote(url)._files


def test_the_manifest_is_uploaded_last(url, tmp_path, monkeypatch):
    remote = Remote(url)
    opened = []
    real = remote._files.open
    monkeypatch.setattr(remote._files, "open", lambda path, *rest: opened.append(path) or real(path, *rest))

    seal(Store(tmp_path / "one", remote=remote))

    assert opened[-1].endswith("/artifact.json")
    assert len(opened) == 3


def test_a_damaged_manifest_is_gone_before_the_files_are_uploaded_again(url, tmp_path, monkeypatch):
    """Or another machine, which knows the folder by it, would meet old and new files together."""
    remote = Remote(url)
    store = Store(tmp_path / "one", remote=remote)
    manifest = f"objects/{seal(store).digest.removeprefix('sha256:')}/artifact.json"
    remote.write(manifest, b"{")
    seen = []
    real = remote._files.open
    monkeypatch.setattr(remote._files, "open", lambda *given: seen.append(remote.read(manifest)) or real(*given))

    seal(store)

    assert seen == [None] * 3
    assert remote.read(manifest) == (store.root / manifest).read_bytes()


def test_a_file_whose_upload_fails_does_not_appear(url):
    remote = Remote(url)
    remote.write("values/v.json", b"old")

    parts = iter([b"new"])  # and then no more: reading raises

    with pytest.raises(HoneError, match="StopIteration"):
        remote._upload("values/v.json", SimpleNamespace(read=lambda _: next(parts)))
    assert remote.read("values/v.json") == b"old"


@pytest.mark.attack(
    what="a manifest of the shared store that names files outside",
    who="store",
    stopped_by="names are checked before anything is written",
)
@pytest.mark.parametrize(
    "name", ["../../../made/evil", "{folder}/made/evil", "/{folder}/made/evil", "a/../../../../evil"]
)
def test_a_manifest_cannot_name_a_file_outside(machines, url, name, tmp_path, monkeypatch):
    _, two = machines
    name = name.format(folder=tmp_path)
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "good").write_bytes(b"evil")
    made = Manifest.measure(folder, {"tree": KEY})
    files = {name: made.files["good"]}  # whoever writes to the store can make the digest fit
    forged = Manifest(digest=manifest_digest(files, made.attributes), files=files, attributes=made.attributes)
    assert forged.is_of(f"trees/{KEY}")
    forged.write(folder / "artifact.json")
    remote, root = fsspec.core.url_to_fs(url)
    remote.pipe_file(f"{root}/trees/{KEY}/artifact.json", (folder / "artifact.json").read_bytes())
    seen = []
    monkeypatch.setattr(two._remote._files, "get_file", lambda _, target: seen.append(target))

    assert two.find_tree(KEY) is None
    assert seen == []
    assert not list(tmp_path.rglob("evil"))
    assert not (tmp_path / "made").exists()


def test_a_damaged_record_is_a_miss_and_is_removed(machines, url):
    one, two = machines
    one.record(KEY, record(Refused(by="a.b", reason="no")))
    files, root = fsspec.core.url_to_fs(url)
    files.pipe_file(f"{root}/steps/{KEY}.json", b'{"key": ')

    assert two.find(KEY) is None
    assert f"steps/{KEY}.json" not in list_remote(url)


def test_nothing_is_uploaded_twice(machines, url, monkeypatch):
    one, _ = machines
    seal(one)
    before = list_remote(url)
    monkeypatch.setattr(one._remote, "_upload", lambda *_: pytest.fail("uploaded again"))
    seal(one)

    assert list_remote(url) == before


@pytest.mark.parametrize("url", ["nonsense://bucket/store", "sftp://host.invalid/store"])
def test_a_storage_that_cannot_be_used_is_explained(url):
    with pytest.raises(HoneError) as caught:
        Remote(url).read("x")

    assert caught.value.slug == "store-unreachable"
    assert url in caught.value.what
    assert "the package for its protocol is installed" in caught.value.hint


@pytest.mark.parametrize("url", ["nonsense://me:s3cr3t@bucket/store", "sftp://me:s3cr3t@host.invalid/store"])
def test_an_error_shows_no_password_of_the_url(url):
    with pytest.raises(HoneError) as caught:
        Remote(url).read("x")

    assert "://***@" in caught.value.what
    assert "s3cr3t" not in str(caught.value)


def test_a_reason_shows_no_password_of_the_url(url, monkeypatch):
    remote = Remote(url)
    failure = PermissionError("GET https://me:s3cr3t@host/x: 403")
    monkeypatch.setattr(type(remote._files), "cat_file", lambda *_, **__: (_ for _ in ()).throw(failure))

    with pytest.raises(HoneError) as caught:
        remote.read("x")

    assert caught.value.why == "PermissionError: GET https://***@host/x: 403"


def test_a_storage_that_refuses_is_explained(url, monkeypatch, tmp_path):
    store = Store(tmp_path, remote=Remote(url))
    monkeypatch.setattr(
        type(store._remote._files), "cat_file", lambda *_, **__: (_ for _ in ()).throw(PermissionError(url))
    )

    with pytest.raises(HoneError) as caught:
        store.find(KEY)

    assert (caught.value.slug, url in caught.value.why) == ("store-unreachable", True)


def test_the_cache_is_plain_files(machines):
    one, _ = machines
    digest = seal(one).digest

    assert Path(one.root / "objects" / digest.removeprefix("sha256:") / "files" / "model.onnx").is_file()
    assert not list((one.root / "steps").iterdir())


def swap(url: str, place: str, other: str) -> None:
    """Put the sealed folder of one name in the place of another."""
    files, root = fsspec.core.url_to_fs(url)
    files.rm(f"{root}/{place}", recursive=True)
    for name in files.find(f"{root}/{other}"):
        files.cp_file(name, name.replace(other, place))


@pytest.mark.attack(
    what="a sound object of the shared store under another's name",
    who="store",
    stopped_by="the manifest is compared with the name",
)
@pytest.mark.parametrize("looked", [True, False])
def test_an_artifact_in_the_place_of_another_is_uploaded_again(machines, url, looked):
    one, two = machines
    first, second = seal(one, "first"), seal(one, "second")
    swap(url, *(f"objects/{artifact.digest.removeprefix('sha256:')}" for artifact in (first, second)))
    if looked:
        assert two.find_artifact(first.digest) is None
        assert not read_files(two, first.digest)

    seal(one, "first")

    assert read_files(two, two.find_artifact(first.digest).digest)["model.onnx"] == "first"


def test_a_shared_tree_in_the_place_of_another_is_a_miss(machines, url, tmp_path):
    one, two = machines
    for key in ("one", "two"):
        (tmp_path / f"made-{key}").mkdir()
        (tmp_path / f"made-{key}" / "x.npz").write_text(key)
        one.store_tree(key, tmp_path / f"made-{key}")
    swap(url, "trees/one", "trees/two")

    assert two.find_tree("one") is None
    one.store_tree("one", tmp_path / "made-one")
    assert (two.find_tree("one") / "x.npz").read_text() == "one"


def test_a_shared_record_of_another_key_is_a_miss(machines):
    one, two = machines
    one.record("1" * 64, record(Refused(by="a.b", reason="no")))

    assert two.find("1" * 64) is None


@pytest.mark.parametrize("names", [["a", "a/b"], ["x" * 300], ["a\0b"], [""], ["."], ["a//b", "a/b"]])
def test_names_that_no_folder_can_hold_are_a_miss(machines, url, names):
    one, two = machines
    made = seal(one)
    files, root = fsspec.core.url_to_fs(url)
    place = f"{root}/objects/{made.digest.removeprefix('sha256:')}"
    manifest = json.loads(files.cat_file(f"{place}/artifact.json"))
    entry = manifest["files"]["model.onnx"]
    lying = Manifest.model_validate({**manifest, "files": dict.fromkeys(names, entry)})
    digest = manifest_digest(lying.files, lying.attributes)
    wrong = f"{root}/objects/{digest.removeprefix('sha256:')}"
    files.pipe_file(f"{wrong}/artifact.json", lying.model_copy(update={"digest": digest}).model_dump_json().encode())
    for name in names:
        with suppress(FileExistsError):  # this storage has no file inside a file; an object storage has
            files.pipe_file(f"{wrong}/files/{name}", b"model")

    assert two.find_artifact(digest) is None
    assert not files.exists(f"{wrong}/artifact.json")


def test_the_longest_name_that_a_folder_can_hold_is_shared(machines):
    one, two = machines
    name = "é" * 127 + "x"  # 255 bytes
    with one.workspace() as workspace:
        (workspace / name).write_text("model")
        digest = one.seal(workspace, format="onnx", inputs=(), outputs=()).digest

    assert two.find_artifact(digest) is not None
    assert read_files(two, digest) == {name: "model"}


@pytest.mark.attack(
    what="JSON of the shared store that is nested too deeply", who="store", stopped_by="read as damaged"
)
@pytest.mark.parametrize("room", ["values", "steps"])
def test_json_that_is_nested_too_deeply_is_damaged(machines, url, room):
    _, two = machines
    files, root = fsspec.core.url_to_fs(url)
    files.pipe_file(f"{root}/{room}/{KEY}.json", b"[" * 100_000)

    assert (two.read_value if room == "values" else two.find)(KEY) is None
    assert not files.exists(f"{root}/{room}/{KEY}.json")


def test_it_crosses_to_another_process_and_has_a_file_system_of_its_own_there(url):
    remote = Remote(url)
    remote.write("values/one.json", b"1")

    one, other = (pickle.loads(pickle.dumps(remote)) for _ in range(2))  # noqa: S301 - its own

    assert one.read("values/one.json") == b"1"
    assert one._files is not other._files


def test_its_cache_can_be_moved_and_the_notes_stay(machines, tmp_path):
    one, _ = machines
    artifact = seal(one, "model")

    moved = one.move_cache(tmp_path / "caches")

    assert moved.root.parent == tmp_path / "caches"
    assert moved.notes == one.root
    assert moved.locate(moved.find_artifact(artifact.digest)).is_relative_to(moved.root)
    assert read_files(moved, artifact.digest) == read_files(one, artifact.digest)
    local = Store(tmp_path / "local")
    assert local.move_cache(tmp_path / "caches") is local
