from __future__ import annotations

import json

import pytest
import yaml

from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.mlmodel import LARGEST_MLMODEL, read_signature

X = TensorSpec(name="x", dtype="float32", shape=("batch", 4))
Y = TensorSpec(name="y", dtype="int64", shape=("batch", "y_1"))
SIGNATURE = {
    "inputs": '[{"name": "x", "type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]}}]',
    "outputs": '[{"name": "y", "type": "tensor", "tensor-spec": {"dtype": "int64", "shape": [-1, -1]}}]',
    "params": None,
}
NOTHING: frozenset[str] = frozenset()


def write_model(folder, flavors, files, signature=None):
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"bytes")
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": flavors, "signature": signature}))
    return folder


def read_slug(folder, trust=NOTHING):
    with pytest.raises(HoneError) as caught:
        read_flavor(folder, trust=trust)
    return caught.value.slug


def test_signatures():
    assert read_signature(SIGNATURE) == ((X,), (Y,))


def test_unnamed_tensors_get_a_name():
    side = json.dumps([{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]}}])
    (inputs, outputs) = read_signature({"inputs": side, "outputs": side, "params": None})
    assert (inputs[0].name, outputs[0].name) == ("input_0", "output_0")
    assert inputs[0].shape == ("batch", 4)


def test_signatures_that_are_none():
    columns = {"inputs": '[{"type": "double", "name": "a"}]', "outputs": None}
    assert read_signature(columns) == ((), ())
    assert read_signature(None) == ((), ())


@pytest.mark.parametrize("odd", [{"inputs": "no json"}, {"inputs": '[{"type": "tensor"}]'}, {"inputs": "[1]"}])
def test_a_signature_that_cannot_be_read(tmp_path, odd):
    folder = write_model(tmp_path, {"onnx": {"data": "model.onnx"}}, ["model.onnx"], odd)
    with pytest.raises(HoneError, match="The signature cannot be read") as caught:
        read_flavor(folder, trust=NOTHING)
    assert caught.value.slug == "model-corrupt"


def test_onnx_with_external_data(tmp_path):
    folder = write_model(
        tmp_path,
        {"onnx": {"data": "model.onnx"}, "python_function": {}},
        ["model.onnx", "model.onnx.data", "requirements.txt", "conda.yaml", "input_example.json"],
        SIGNATURE,
    )
    flavor = read_flavor(folder, trust=NOTHING)
    assert (flavor.format, flavor.interface) == ("onnx", "onnx")
    assert flavor.files == (("model.onnx", "model.onnx"), ("model.onnx.data", "model.onnx.data"))
    assert (flavor.inputs, flavor.outputs) == ((X,), (Y,))


def test_pytorch_exported_program(tmp_path):
    folder = write_model(tmp_path, {"pytorch": {"model_data": "data"}}, ["data/model.pt2"])
    flavor = read_flavor(folder, trust=NOTHING)
    assert (flavor.format, flavor.interface) == ("pytorch", "pytorch")
    assert flavor.files == (("data/model.pt2", "model.pt2"),)


def test_a_pickle_is_refused(tmp_path):
    folder = write_model(tmp_path, {"pytorch": {"model_data": "data"}}, ["data/model.pth"])
    assert read_slug(folder) == "pickle-not-trusted"
    assert read_flavor(folder, trust=frozenset({"pickle"})).format == "pytorch-module"


@pytest.mark.attack(what="a pickle under a model's usual name", who="registry", stopped_by="nothing is unpickled")
def test_a_bare_pickle_is_refused(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x")
    assert read_slug(tmp_path) == "pickle-not-trusted"


@pytest.mark.parametrize(("name", "form"), [("model.onnx", "onnx"), ("digits.onnx", "onnx"), ("net.pt2", "pytorch")])
def test_bare_files(tmp_path, name, form):
    (tmp_path / name).write_bytes(b"x")
    flavor = read_flavor(tmp_path, trust=NOTHING)
    assert flavor.format == form
    assert flavor.files[0][0] == name


def test_other_flavors_are_unsupported(tmp_path):
    folder = write_model(tmp_path, {"spacy": {}, "python_function": {}}, ["model.pkl"])
    assert read_slug(folder) == "model-unsupported"


def test_an_empty_folder_is_unsupported(tmp_path):
    assert read_slug(tmp_path) == "model-unsupported"


def test_a_winner_as_a_source(tmp_path):
    home = tmp_path / "artifact"
    home.mkdir()
    (home / "model.onnx").write_bytes(b"x")
    artifact = Artifact(format="onnx", digest="", inputs=(X,), outputs=(Y,), runtime="onnxruntime")
    artifact = artifact.model_copy(update={"digest": Manifest.measure(home, artifact.manifest()).digest})
    write_manifest(home, artifact)
    write_model(tmp_path, {"kedro_hone": {"artifact": "artifact"}}, [])
    flavor = read_flavor(tmp_path, trust=NOTHING)
    assert (flavor.format, flavor.inputs, flavor.outputs) == ("onnx", artifact.inputs, artifact.outputs)
    assert flavor.files == (("artifact/model.onnx", "model.onnx"),)
    assert read_flavor(home, trust=NOTHING).files == (("model.onnx", "model.onnx"),)


@pytest.mark.attack(
    what="an MLmodel whose paths lead to files of the host",
    who="registry",
    stopped_by="paths are resolved within the folder",
)
@pytest.mark.parametrize("place", ["../secret.onnx", "/etc/passwd", "nowhere.onnx"])
def test_an_mlmodel_may_not_point_outside(tmp_path, place):
    (tmp_path / "secret.onnx").write_bytes(b"x")
    (tmp_path / "model").mkdir()
    assert read_slug(write_model(tmp_path / "model", {"onnx": {"data": place}}, [])) == "model-corrupt"


@pytest.mark.attack(
    what="a link to a file of the host among the model's files",
    who="registry",
    stopped_by="links must stay in the folder",
)
def test_a_link_may_not_lead_outside(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    folder = tmp_path / "model"
    folder.mkdir()
    write_model(folder, {"onnx": {"data": "model.onnx"}}, ["model.onnx"])
    (folder / "weights").symlink_to("../secret")
    assert read_slug(folder) == "model-external-data"


@pytest.mark.attack(
    what="a YAML tag in MLmodel that runs a command", who="registry", stopped_by="YAML is read by its safe loader"
)
@pytest.mark.parametrize(
    "text", ["flavors: [", "- 1", "flavors: 3", "!!python/object/apply:os.system ['true']", "flavors: {onnx: {}}"]
)
def test_a_broken_mlmodel(tmp_path, text):
    (tmp_path / "MLmodel").write_text(text)
    assert read_slug(tmp_path) == "model-corrupt"


def test_a_broken_signature(tmp_path):
    folder = write_model(tmp_path, {"onnx": {"data": "model.onnx"}}, ["model.onnx"], {"inputs": "{"})
    assert read_slug(folder) == "model-corrupt"


@pytest.mark.attack(what="an MLmodel of gigabytes", who="registry", stopped_by="the size is bounded before it is read")
def test_a_huge_mlmodel_is_not_parsed(tmp_path):
    (tmp_path / "MLmodel").write_text(" " * (LARGEST_MLMODEL + 1))
    assert read_slug(tmp_path) == "model-corrupt"


def test_what_is_not_known_is_named_as_its_user_does(tmp_path):
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    (pulled / "net.bin").write_bytes(b"x")
    with pytest.raises(HoneError) as refused:
        read_flavor(pulled, trust=frozenset(), uri="models/edge")
    assert refused.value.what == "models/edge contains no model that can be optimized."
    assert "It contains: net.bin." in refused.value.why
    assert "pulled" not in str(refused.value)
