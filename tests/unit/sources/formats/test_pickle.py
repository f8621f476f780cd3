from __future__ import annotations

import json

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor


def catch(folder, *trust):
    with pytest.raises(HoneError) as caught:
        read_flavor(folder, trust=frozenset(trust))
    return caught.value


@pytest.mark.attack(what="a model of MLflow's flavors that unpickle", who="registry", stopped_by="nothing is unpickled")
@pytest.mark.parametrize("name", ["model.pth", "net.pt", "model.pkl"])
def test_a_pickle_is_named_and_not_opened(tmp_path, name):
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    error = catch(tmp_path)
    assert (error.slug, error.what) == ("pickle-not-trusted", f"The model is a pickle ({name}).")
    assert 'serialization_format="pt2"' in error.hint


def test_a_trusted_pickle_is_sealed_with_its_code(tmp_path):
    for name in ("data/model.pth", "code/net.py", "code/parts/layer.py", "code/parts/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    entry = {"model_data": "data", "code": "code"}
    (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": {"pytorch": entry}}))
    flavor = read_flavor(tmp_path, trust=frozenset({"pickle"}))
    assert (flavor.format, flavor.source, flavor.interface) == ("pytorch-module", "pickle", "pytorch")
    assert flavor.files == (
        ("data/model.pth", "model.pth"),
        ("code/net.py", "code/net.py"),
        ("code/parts/layer.py", "code/parts/layer.py"),
    )
    assert [name for name, _ in flavor.texts] == ["module.json"]
    entry["code"] = "../elsewhere"
    (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": {"pytorch": entry}}))
    assert catch(tmp_path, "pickle").slug == "model-corrupt"


@pytest.mark.parametrize("names", [["model.pkl"], ["a.pth", "b.pth"]])
def test_a_trusted_pickle_that_is_no_module_of_pytorch(tmp_path, names):
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert catch(tmp_path, "pickle").slug == "model-unsupported"


def test_an_exported_program_next_to_a_pickle_is_taken(tmp_path):
    for name in ("model.pt2", "optimizer.pt"):
        (tmp_path / name).write_bytes(b"x")
    assert read_flavor(tmp_path, trust=frozenset()).source == "pytorch"


@pytest.mark.parametrize(
    ("files", "slug"),
    [
        (["data/a.pt2", "data/b.pt2"], "model-corrupt"),
        (["data/a.pt2", "data/b.pt2", "data/model.pth"], "pickle-not-trusted"),
        (["data/readme.txt"], "model-corrupt"),
    ],
)
def test_a_flavor_without_one_program(tmp_path, files, slug):
    (tmp_path / "data").mkdir()
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": {"pytorch": {"model_data": "data"}}}))
    assert catch(tmp_path).slug == slug


def test_the_python_that_wrote_a_pickle_is_kept(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "model.pth").write_bytes(b"x")
    for said, kept in (("3.10.4", "3.10.4"), ([3], None), ("3.10; import os", None)):
        flavors = {"pytorch": {"model_data": "data"}, "python_function": {"python_version": said}}
        (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": flavors}))
        flavor = read_flavor(tmp_path, trust=frozenset({"pickle"}))
        assert json.loads(flavor.texts[0][1]).get("python") == kept
