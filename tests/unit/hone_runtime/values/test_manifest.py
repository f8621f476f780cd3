from __future__ import annotations

import json

import pytest

from hone_runtime.values.digest import digest_json, digest_tree
from hone_runtime.values.manifest import Manifest, UnsealableError, read_sealed

ATTRIBUTES = {"format": "onnx", "metadata": {"opset": 17}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "files" / "a").mkdir(parents=True)
    for name in ("a/b", "a.x", "c"):  # the order of the paths is not that of their texts
        (tmp_path / "files" / name).write_text(name)
    return tmp_path / "files"


def test_the_digest_is_that_of_the_tree_and_of_what_it_is(folder):
    digest = digest_json({"files": digest_tree(folder), "manifest": ATTRIBUTES})
    assert Manifest.measure(folder, ATTRIBUTES).digest == digest


def test_it_round_trips(folder, tmp_path):
    manifest = Manifest.measure(folder, ATTRIBUTES)
    manifest.write(tmp_path / "artifact.json")
    assert Manifest.read(tmp_path / "artifact.json") == manifest
    text = (tmp_path / "artifact.json").read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
    assert manifest.find_difference(folder) is None


@pytest.mark.parametrize(
    ("name", "text", "clue"),
    [
        ("c", "d", "the file c is not the one that was sealed"),
        ("c", "longer", "the file c is not the one that was sealed"),
        ("d", "d", "the file d is not in the manifest"),
        ("c", None, "the file c is missing"),
        ("artifact.json", "{}", "artifact.json is not in the manifest"),
    ],
)
def test_what_differs_is_named_and_is_not_used(folder, tmp_path, name, text, clue):
    manifest = Manifest.measure(folder, ATTRIBUTES)
    place = tmp_path / "objects" / manifest.digest.removeprefix("sha256:")
    place.mkdir(parents=True)
    manifest.write(place / "artifact.json")
    folder = folder.rename(place / "files")
    assert read_sealed(place) == manifest
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    assert read_sealed(place) is None
    assert clue in manifest.find_difference(folder)


def test_the_manifest_may_be_inside(folder):
    manifest = Manifest.measure(folder, ATTRIBUTES)
    manifest.write(folder / "artifact.json")
    assert manifest.find_difference(folder, inside=True) is None


def test_other_attributes_are_a_difference(folder):
    manifest = Manifest.measure(folder, ATTRIBUTES).model_copy(update={"attributes": {"format": "pytorch"}})
    assert "the manifest is not the one" in manifest.find_difference(folder)


@pytest.mark.attack(what="a link in the place of a sealed file", who="store", stopped_by="links are no files")
def test_a_link_is_no_file(folder):
    manifest = Manifest.measure(folder, ATTRIBUTES)
    (folder / "c").unlink()
    (folder / "c").symlink_to("a.x")
    with pytest.raises(UnsealableError):
        manifest.find_difference(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": "x"}', '{"digest": "x", "files": {"a": 3}}'])
def test_a_damaged_manifest_is_a_value_error(tmp_path, text):
    (tmp_path / "artifact.json").write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011
        Manifest.read(tmp_path / "artifact.json")
