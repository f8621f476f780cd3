from __future__ import annotations

import json
from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.learner.download import Download
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.environment import SERVER, SERVER_TORCH, choose_server
from kedro_hone.serving.launch import describe_model, read_shapes
from kedro_hone.serving.winner import ServedWinner, describe_winner

X = TensorSpec(name="x", dtype="float32", shape=("batch", 4))


def make(folder: Path, *, runtime: str = "onnxruntime", **metadata) -> ServedWinner:
    artifact = Artifact(format="onnx", digest="sha256:0", inputs=(X,), outputs=(X,), runtime=runtime, metadata=metadata)
    download = Download(
        folder=folder, files=folder / "artifact", artifact=artifact, version=None, name="shop", vouched=False
    )
    return describe_winner(download, str(folder))


def write_evidence(folder: Path, content: str) -> Path:
    (folder / "evidence").mkdir()
    (folder / "evidence" / "evidence.json").write_text(content)
    return folder


def test_a_winner_is_described_by_its_artifact_and_its_recipe(tmp_path: Path) -> None:
    write_evidence(tmp_path, json.dumps({"recipe": {"shapes": {"one": {"batch": 1}, "many": {"batch": 64}}}}))
    found = describe_model(make(tmp_path), threads=2)
    assert (found.name, found.version, found.folder, found.threads) == ("shop", "1", tmp_path, 2)
    assert found.inputs[0].model_dump() == {"name": "x", "datatype": "FP32", "shape": (-1, 4)}
    assert found.shapes == ({"batch": 1}, {"batch": 64})
    assert not found.vouched


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"recipe": {"shapes": []}}', '{"recipe": {"shapes": {"a": {"batch": -1}}}}']
)
def test_evidence_without_shapes_gives_none(tmp_path: Path, content: str) -> None:
    assert read_shapes(write_evidence(tmp_path, content)) == ()


def test_a_language_model_with_a_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoneError, match="cache of keys and values") as refused:
        describe_model(make(tmp_path, cache={"length": 128}))
    assert refused.value.slug == "serving-unsupported"
    assert "--to ovms" in refused.value.hint


def test_the_smallest_environment_with_all_runtimes_is_chosen(tmp_path: Path) -> None:
    small = [make(tmp_path, runtime=one) for one in ("onnxruntime", "openvino", "litert", "composite")]
    assert choose_server(small) is SERVER
    assert choose_server([*small, make(tmp_path, runtime="pytorch")]) is SERVER_TORCH


@pytest.mark.parametrize("runtime", ["iree", "tensorflow", "nothing"])
def test_a_runtime_that_no_environment_has_is_refused(tmp_path: Path, runtime: str) -> None:
    with pytest.raises(HoneError, match=runtime) as refused:
        choose_server([make(tmp_path), make(tmp_path, runtime=runtime)])
    assert refused.value.slug == "serving-unsupported"
