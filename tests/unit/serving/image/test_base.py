from __future__ import annotations

import json
from pathlib import Path

import pytest
from packed_versions import HOST, write_base

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.base import PYTHON, fetch_base
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import INDEX, Platform

OTHER = "arm64" if HOST.architecture == "amd64" else "amd64"


def refuse(folder: Path, tmp_path: Path) -> HoneError:
    with pytest.raises(HoneError) as refused:
        fetch_base(str(folder), Blobs(tmp_path / "mine"))
    assert refused.value.slug == "image-base-unfit"
    return refused.value


def test_a_layout_is_read_with_its_blobs(tmp_path: Path) -> None:
    folder, blobs = write_base(tmp_path / "base", Blobs(tmp_path / "other")), Blobs(tmp_path / "mine")
    base = fetch_base(str(folder), blobs)
    assert base.python == f"{PYTHON}.7"
    assert blobs.has(base.layers[0])
    assert len(base.diff_ids) == 1


def test_an_image_for_another_architecture_is_refused(tmp_path: Path) -> None:
    folder = write_base(tmp_path / "base", Blobs(tmp_path / "other"), architecture=OTHER, os="linux")
    assert f"linux/{OTHER}" in refuse(folder, tmp_path).why
    other = Platform(architecture=OTHER, os="linux")
    folder = write_base(tmp_path / "indexed", Blobs(tmp_path / "other"), platform=other)
    assert f"linux/{OTHER}" in refuse(folder, tmp_path).why


def test_an_image_with_another_python_is_refused(tmp_path: Path) -> None:
    for version in ("3.9.1", "3.1.0", f"{PYTHON}9.1"):
        config = {"Env": [f"PYTHON_VERSION={version}"]}
        folder = write_base(tmp_path / version, Blobs(tmp_path / "other"), config=config)
        assert version in refuse(folder, tmp_path).why


def test_a_python_that_is_not_named_is_unknown(tmp_path: Path) -> None:
    folder = write_base(tmp_path / "base", Blobs(tmp_path / "other"), config=None)
    assert fetch_base(str(folder), Blobs(tmp_path / "mine")).python == ""


def test_the_image_of_this_platform_is_chosen_from_an_index(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "other")
    folder = write_base(tmp_path / "base", blobs)
    (entry,) = json.loads((folder / "index.json").read_text())["manifests"]
    foreign = {**entry, "digest": f"sha256:{'f' * 64}", "platform": {"architecture": OTHER, "os": "linux"}}
    index = blobs.add_json({"schemaVersion": 2, "manifests": [foreign, entry]}, INDEX)
    (folder / "blobs" / "sha256" / index.hex).write_bytes(blobs.locate(index.digest).read_bytes())
    (folder / "index.json").write_text(json.dumps({"manifests": [index.dump()]}))
    assert fetch_base(str(folder), Blobs(tmp_path / "mine")).digest == entry["digest"]


@pytest.mark.attack(
    what="a blob of a base image whose bytes are not those of its digest",
    who="store",
    stopped_by="each blob of a base is read and its digest compared before it becomes part of an image",
)
def test_a_damaged_blob_is_refused_and_not_kept(tmp_path: Path) -> None:
    folder = write_base(tmp_path / "base", Blobs(tmp_path / "other"))
    for path in sorted((folder / "blobs" / "sha256").iterdir()):
        content = path.read_bytes()
        path.unlink()  # a second name of the file in the folder of blobs
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        refuse(folder, tmp_path)
        assert not (tmp_path / "mine" / "sha256" / path.name).exists()
        path.write_bytes(content)
    assert fetch_base(str(folder), Blobs(tmp_path / "mine")).layers


def test_what_is_no_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "oci-layout" in refuse(tmp_path / "empty", tmp_path).why
    folder = write_base(tmp_path / "base", Blobs(tmp_path / "other"))
    for text in ("", "[]", "{}", '{"manifests": [{"digest": "sha256:../../x"}]}'):
        (folder / "index.json").write_text(text)
        refuse(folder, tmp_path)
