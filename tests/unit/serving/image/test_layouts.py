from __future__ import annotations

import json
from pathlib import Path

import pytest
from packed_versions import write_base
from pydantic import ValidationError

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.layouts import check_target, is_layout, read_index


def test_a_layout_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    folder = write_base(tmp_path / "base", Blobs(tmp_path / "blobs"))
    first = (folder / "index.json").read_bytes()
    assert is_layout(folder)
    write_base(folder, Blobs(tmp_path / "blobs"))
    assert (folder / "index.json").read_bytes() == first
    assert not [path for path in (folder / "blobs" / "sha256").iterdir() if path.name.startswith(".")]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    for taken in (tmp_path / "mine", tmp_path / "mine" / "thesis.tex"):
        with pytest.raises(HoneError, match="nothing in it is replaced"):
            check_target(taken)


def test_every_descriptor_of_an_index_is_checked(tmp_path: Path) -> None:
    entry = {"mediaType": "a/b", "digest": f"sha256:{'0' * 64}", "size": 3, "more": "is ignored"}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [entry]}))
    assert read_index(tmp_path)[0].size == 3
    for change in ({"digest": "sha256:../../etc"}, {"digest": f"md5:{'0' * 64}"}, {"size": -1}, {"size": "x"}):
        (tmp_path / "index.json").write_text(json.dumps({"manifests": [{**entry, **change}]}))
        with pytest.raises(ValidationError):
            read_index(tmp_path)
