from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import find_only, list_pickles, write_files
from kedro_hone.sources.source_format import Flavor


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a.onnx"], "a.onnx"),
        (["a.onnx", "model.onnx"], "model.onnx"),
        (["a.onnx", "b.onnx"], None),
        (["model.onnx.data"], None),
        ([], None),
    ],
)
def test_the_named_file_or_the_only_one(tmp_path, names, found):
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert find_only(tmp_path, "model.onnx") == (tmp_path / found if found else None)


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2", "model.pth"])
def test_a_folder_with_a_models_name_is_no_model(tmp_path, name):
    (tmp_path / name).mkdir()
    assert find_only(tmp_path, name) is None
    assert list_pickles(tmp_path) == []
    with pytest.raises(HoneError) as caught:
        read_flavor(tmp_path, trust=frozenset())
    assert caught.value.slug == "model-unsupported"


def test_files_are_written_by_their_names_in_the_artifact(tmp_path):
    (tmp_path / "pulled" / "data").mkdir(parents=True)
    (tmp_path / "pulled" / "data" / "net.pt2").write_bytes(b"state")
    (tmp_path / "net.py").write_text("class Net: ...\n")
    flavor = Flavor(
        format="pytorch-module",
        files=(("data/net.pt2", "model.pt2"), (str(tmp_path / "net.py"), "code/net.py")),
        texts=(("module.json", "{}"),),
    )
    write_files(flavor, tmp_path / "pulled", tmp_path / "files")
    written = {
        path.relative_to(tmp_path / "files").as_posix(): path.read_text()
        for path in (tmp_path / "files").rglob("*")
        if path.is_file()
    }
    assert written == {"model.pt2": "state", "code/net.py": "class Net: ...\n", "module.json": "{}"}
