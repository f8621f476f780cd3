from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from served_winners import X, Y, make_composite, make_ir_winner, make_onnx_winner, make_winner, write_onnx

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.export.exports import export_winner
from kedro_hone.serving.export.target import Request

SCHEMA = json.loads(Path(__file__).with_name("ovms_config.schema.json").read_text())


def read_config(folder: Path) -> dict:
    """Return a written configuration, after OpenVINO Model Server's own schema accepted it."""
    config = json.loads((folder / "models" / "config.json").read_text())
    jsonschema.validate(config, SCHEMA)
    return config


def test_the_schema_refuses_unknown_keys() -> None:
    for entry in ({"name": "m", "threads": 1}, {"base_path": "m"}, {"name": "m", "plugin_config": {"a": []}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"model_config_list": [{"config": entry}]}, SCHEMA)


def test_a_model_with_its_run_options(tmp_path, stack) -> None:
    winner = make_ir_winner(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "ovms", Request(), tmp_path / "out")
    assert not exported.gap
    assert not exported.export.notes
    (entry,) = read_config(tmp_path / "out")["model_config_list"]
    assert entry["config"] == {
        "name": "digits",
        "base_path": "digits",
        "target_device": "CPU",
        "model_version_policy": {"specific": {"versions": [1]}},
        "plugin_config": {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": "1",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": "1",
        },
    }
    files = sorted(path.name for path in (tmp_path / "out" / "models" / "digits" / "1").iterdir())
    assert files == ["model.bin", "model.xml"]


def test_openvino_accepts_the_options_as_they_are_written(tmp_path, stack) -> None:
    import openvino as ov

    winner = make_ir_winner(tmp_path / "winner", stack=stack)
    export_winner(winner, "ovms", Request(), tmp_path / "out")
    (entry,) = read_config(tmp_path / "out")["model_config_list"]
    model = tmp_path / "out" / "models" / entry["config"]["base_path"] / "1" / "model.xml"
    compiled = ov.Core().compile_model(model, "CPU", entry["config"]["plugin_config"])
    assert compiled.get_property("INFERENCE_NUM_THREADS") == 1
    assert compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() == "f32"


@pytest.mark.parametrize(
    ("options", "threads", "count"),
    [({"NUM_STREAMS": 2}, 4, 2), ({"NUM_STREAMS": 4}, 2, 2), ({}, 4, None)],  # without, OpenVINO chooses both
)
def test_a_model_has_the_streams_of_the_winner(tmp_path, stack, options, threads, count) -> None:
    import openvino as ov

    own = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT", **options}
    winner = make_ir_winner(tmp_path / "w", stack=stack, metadata={"threads": threads}, run_options=own)
    export_winner(winner, "ovms", Request(), tmp_path / "out")
    (entry,) = read_config(tmp_path / "out")["model_config_list"]
    config = entry["config"]
    shared = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(threads),
    }
    assert config["plugin_config"] == {**shared, **({"NUM_STREAMS": str(count)} if count else {})}
    assert config.get("nireq") == count
    model = tmp_path / "out" / "models" / "digits" / "1" / "model.xml"
    compiled = ov.Core().compile_model(model, "CPU", config["plugin_config"])
    assert compiled.get_property("PERFORMANCE_HINT") == "THROUGHPUT"
    assert count in {None, compiled.get_property("NUM_STREAMS")}


def test_streams_of_onnx_runtime_are_those_of_openvino(tmp_path, stack) -> None:
    metadata = {"threads": 4, "domains": ["ai.onnx"]}
    options = {"graph_optimization": "disabled", "streams": 2}
    winner = make_onnx_winner(tmp_path / "w", stack=stack, metadata=metadata, run_options=options)
    export_winner(winner, "ovms", Request(), tmp_path / "out")
    (entry,) = read_config(tmp_path / "out")["model_config_list"]
    assert entry["config"]["nireq"] == 2
    assert entry["config"]["plugin_config"] == {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "NUM_STREAMS": "2",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": "4",
    }


def test_an_onnx_model_is_run_by_another_runtime_and_the_readme_says_so(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack, metadata={"threads": 1, "domains": ["ai.onnx"]})
    exported = export_winner(winner, "ovms", Request(), tmp_path / "out")
    (entry,) = read_config(tmp_path / "out")["model_config_list"]
    assert entry["config"]["plugin_config"]["INFERENCE_PRECISION_HINT"] == "f32"
    assert "graph_optimization" not in entry["config"]["plugin_config"]
    assert "measured in ONNX Runtime" in exported.export.notes[0]
    assert not exported.gap


def test_an_onnx_model_that_openvino_computes_differently_is_not_written(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack, metadata={"threads": 1, "domains": ["ai.onnx"]})
    y = winner.golden.outputs["y"]
    outputs = {**winner.golden.outputs, "y": type(y).of(y.unpack()[:, ::-1])}
    winner = replace(winner, golden=winner.golden.model_copy(update={"outputs": outputs}))
    with pytest.raises(HoneError, match="output y differs"):
        export_winner(winner, "ovms", Request(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_graph_with_operators_of_onnx_runtime_is_refused(tmp_path, stack) -> None:
    winner = make_winner(
        tmp_path / "winner",
        lambda files: write_onnx(files, domain="com.microsoft"),
        stack=stack,
        metadata={"threads": 1, "domains": ["ai.onnx", "com.microsoft"]},
    )
    with pytest.raises(HoneError, match="the operators of com") as refused:
        export_winner(winner, "ovms", Request(), tmp_path / "out")
    assert refused.value.hint == "These targets fit it: triton, kserve, mlserver, onnx."
    assert not (tmp_path / "out").exists()


def test_the_parts_of_a_composite_are_two_models(tmp_path, stack) -> None:
    winner = make_composite(tmp_path / "winner", stack=stack)
    export_winner(winner, "ovms", Request(), tmp_path / "out")
    entries = read_config(tmp_path / "out")["model_config_list"]
    assert [entry["config"]["name"] for entry in entries] == ["digits-1", "digits-2"]


def test_text_and_merged_calls_are_refused(tmp_path, stack) -> None:
    text = TensorSpec(name="t", dtype="str", shape=("batch",))
    winner = make_winner(
        tmp_path / "text",
        lambda files: (files / "model.onnx").write_text("-"),
        stack=stack,
        inputs=(X, text),
        outputs=(Y,),
        run=False,
    )
    with pytest.raises(HoneError, match="text"):
        export_winner(winner, "ovms", Request(), tmp_path / "out")
    with pytest.raises(HoneError, match="--max-batch"):
        export_winner(make_ir_winner(tmp_path / "ir", stack=stack), "ovms", Request(max_batch=4), tmp_path / "out")
