"""The input example of a model's folder, which is not trusted."""

from __future__ import annotations

import json

import yaml

from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.derivation.example import read_example

SOURCE = Artifact(
    format="onnx",
    digest="sha256:0",
    inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 2)),),
    outputs=(),
)
ROWS = {"inputs": [[1.0, 2.0], [3.0, 4.0]]}


def read(tmp_path, place):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.json").write_text(json.dumps(ROWS))
    (folder / "example.json").write_text(json.dumps(ROWS))
    (folder / "MLmodel").write_text(yaml.safe_dump({"saved_input_example_info": {"artifact_path": str(place)}}))
    return read_example("model", LocalRegistry(tmp_path), SOURCE)


def test_the_example_has_the_name_of_the_only_input(tmp_path):
    assert read(tmp_path, "example.json")["x"].tolist() == ROWS["inputs"]


def test_a_file_outside_of_the_folder_is_not_read(tmp_path):
    assert read(tmp_path, tmp_path / "outside.json") == {}
