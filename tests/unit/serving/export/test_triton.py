from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from served_winners import ROWS, X, Y, make_composite, make_ir_winner, make_onnx_winner, make_static_winner, make_winner

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.export.exports import export_winner
from kedro_hone.serving.export.target import Request

PARSE = """
import json, sys
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2
config = text_format.Parse(open(sys.argv[1]).read(), model_config_pb2.ModelConfig())
print(json.dumps(json_format.MessageToDict(config, preserving_proto_field_name=True)))
"""


@pytest.fixture
def parse(model_servers):
    """Parse ``config.pbtxt`` by Triton's own definition, which refuses unknown fields and values."""

    def parse(path: Path) -> dict:
        command = [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(model_servers)!r})\n{PARSE}",
            str(path),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    return parse


def test_a_model_of_onnx_runtime(tmp_path, stack, parse) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "triton", Request(), tmp_path / "out")
    assert not exported.gap
    place = tmp_path / "out" / "models" / "digits"
    assert (place / "1" / "model.onnx").read_bytes() == (winner.files / "model.onnx").read_bytes()
    assert parse(place / "config.pbtxt") == {
        "name": "digits",
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "default_model_filename": "model.onnx",
        "version_policy": {"specific": {"versions": ["1"]}},
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["-1", "4"]}],
        "output": [
            {"name": "y", "data_type": "TYPE_FP32", "dims": ["-1", "3"]},
            {"name": "label", "data_type": "TYPE_INT64", "dims": ["-1"]},
        ],
        "optimization": {"graph": {"level": 2}},
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        "parameters": {"intra_op_thread_count": {"string_value": "1"}},
        "model_warmup": [
            {
                "name": "golden",
                "batch_size": 1,
                "inputs": {"x": {"data_type": "TYPE_FP32", "dims": ["5", "4"], "input_data_file": "input-0.bin"}},
            }
        ],
    }
    assert (place / "warmup" / "input-0.bin").read_bytes() == ROWS.tobytes()
    assert sorted(path.name for path in (tmp_path / "out" / "models").iterdir()) == ["digits"]


def test_merged_calls_are_counted_without_their_rows(tmp_path, stack, parse) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    export_winner(winner, "triton", Request(max_batch=16, max_delay_ms=0.5), tmp_path / "out")
    place = tmp_path / "out" / "models" / "digits"
    config = parse(place / "config.pbtxt")
    assert config["max_batch_size"] == 16
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": "500"}
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": ["4"]}]
    assert config["output"][1] == {"name": "label", "data_type": "TYPE_INT64", "dims": ["1"], "reshape": {}}
    assert config["model_warmup"][0]["inputs"]["x"]["dims"] == ["4"]
    assert (place / "warmup" / "input-0.bin").read_bytes() == ROWS[0].tobytes()
    response = json.loads((tmp_path / "out" / "golden" / "response.json").read_text())
    assert [output["shape"] for output in response["outputs"]] == [[5, 3], [5, 1]]


def test_a_model_of_openvino_says_what_the_backend_cannot_set(tmp_path, stack, parse) -> None:
    winner = make_ir_winner(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "triton", Request(), tmp_path / "out")
    config = parse(tmp_path / "out" / "models" / "digits" / "config.pbtxt")
    assert (config["backend"], config["default_model_filename"]) == ("openvino", "model.xml")
    assert {name: value["string_value"] for name, value in config["parameters"].items()} == {
        "INFERENCE_NUM_THREADS": "1",
        "NUM_STREAMS": "1",
        "PERFORMANCE_HINT": "LATENCY",
    }
    assert "bf16" in exported.export.notes[0]
    assert exported.export.notes[0] in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(HoneError, match="--max-batch"):
        export_winner(winner, "triton", Request(max_batch=4), tmp_path / "batched")


def list_parameters(config: dict) -> dict[str, str]:
    return {name: value["string_value"] for name, value in config["parameters"].items()}


@pytest.mark.parametrize(
    ("streams", "threads", "count"),
    [(2, 4, 2), (4, 2, 2), (None, 4, 4)],  # without, OpenVINO chooses, as where it was measured
)
def test_openvino_has_the_streams_of_the_winner(tmp_path, stack, parse, *, streams, threads, count) -> None:
    options = {"NUM_STREAMS": streams} if streams else {}
    winner = make_ir_winner(
        tmp_path / "w",
        stack=stack,
        metadata={"threads": threads},
        run_options={"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT", **options},
    )
    exported = export_winner(winner, "triton", Request(), tmp_path / "out")
    config = parse(tmp_path / "out" / "models" / "digits" / "config.pbtxt")
    shared = {"INFERENCE_NUM_THREADS": str(threads), "PERFORMANCE_HINT": "THROUGHPUT"}
    assert list_parameters(config) == {**shared, **({"NUM_STREAMS": str(count)} if streams else {})}
    assert config["instance_group"] == [{"count": count, "kind": "KIND_CPU"}]
    assert any(f"takes {count} calls at once" in note for note in exported.export.notes)


@pytest.mark.parametrize(("streams", "count", "each"), [(2, 2, "3"), (4, 4, "1"), (8, 6, "1")])
def test_streams_of_onnx_runtime_become_instances(tmp_path, stack, parse, *, streams, count, each) -> None:
    options = {"graph_optimization": "disabled", "streams": streams}
    winner = make_onnx_winner(tmp_path / "w", stack=stack, metadata={"threads": 6}, run_options=options)
    export_winner(winner, "triton", Request(), tmp_path / "out")
    config = parse(tmp_path / "out" / "models" / "digits" / "config.pbtxt")
    assert config["instance_group"] == [{"count": count, "kind": "KIND_CPU"}]
    assert list_parameters(config) == {"intra_op_thread_count": each}


def test_a_composite_becomes_a_model_for_each_part(tmp_path, stack, parse) -> None:
    winner = make_composite(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "triton", Request(), tmp_path / "out")
    assert not exported.gap
    backends = [parse(tmp_path / "out" / "models" / f"digits-{n}" / "config.pbtxt")["backend"] for n in (1, 2)]
    assert backends == ["openvino", "onnxruntime"]
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "| `digits-1` | batch 64; all other sizes | openvino-ir |" in readme
    assert "| `digits-2` | batch 1 | onnx |" in readme
    assert (tmp_path / "out" / "golden" / "digits-2" / "request.json").is_file()


def test_packages_of_aotinductor_become_a_model_for_each_shape(tmp_path, stack, parse) -> None:
    winner = make_static_winner(tmp_path / "winner", form="aot-inductor", runtime="pytorch", ending=".pt2", stack=stack)
    exported = export_winner(winner, "triton", Request(trusted=True), tmp_path / "out")
    assert exported.gap
    config = parse(tmp_path / "out" / "models" / "digits-2" / "config.pbtxt")
    assert (config["backend"], config["platform"]) == ("pytorch", "torch_aoti")
    assert config["input"] == [{"name": "INPUT__0", "data_type": "TYPE_FP32", "dims": ["3", "4"]}]
    assert config["parameters"] == {"INTRA_OP_THREAD_COUNT": {"string_value": "1"}}
    assert "docker run --rm -e AOTI_RUNTIME_CHECK_INPUTS=1 -p" in (tmp_path / "out" / "README.md").read_text()
    assert config["output"] == [{"name": "OUTPUT__0", "data_type": "TYPE_FP32", "dims": ["3", "3"]}]
    assert (tmp_path / "out" / "models" / "digits-2" / "1" / "model.pt2").read_text() == "bulk"


@pytest.mark.attack(
    who="registry",
    what="a tensor whose name ends its quotes in an exported configuration, and goes on with other fields",
    stopped_by="every byte that could end a text is escaped",
)
def test_names_cannot_leave_their_quotes(tmp_path, stack, parse) -> None:
    odd = TensorSpec(name='x" data_type: TYPE_INT8 \\', dtype="float32", shape=("batch", 4))
    winner = make_winner(
        tmp_path / "winner", lambda files: (files / "model.onnx").write_text("-"), stack=stack, inputs=(odd,), run=False
    )
    export_winner(winner, "triton", Request(), tmp_path / "out")
    config = parse(tmp_path / "out" / "models" / "digits" / "config.pbtxt")
    assert config["input"] == [{"name": odd.name, "data_type": "TYPE_FP32", "dims": ["-1", "4"]}]


def test_a_graph_that_crashes_a_pass_is_opened_without_any(tmp_path, stack, parse) -> None:
    winner = make_onnx_winner(
        tmp_path / "winner", stack=stack, run_options={}, metadata={"threads": 2, "crashes": "ConstantFolding"}
    )
    exported = export_winner(winner, "triton", Request(), tmp_path / "out")
    config = parse(tmp_path / "out" / "models" / "digits" / "config.pbtxt")
    assert config["optimization"] == {"graph": {"level": 2}}
    assert config["parameters"]["intra_op_thread_count"] == {"string_value": "2"}
    assert "crashes" in exported.export.notes[0]


def test_a_scalar_is_refused(tmp_path, stack) -> None:
    scalar = TensorSpec(name="loss", dtype="float32", shape=())
    winner = make_winner(
        tmp_path / "winner",
        lambda files: (files / "model.onnx").write_text("-"),
        stack=stack,
        inputs=(X,),
        outputs=(Y, scalar),
        run=False,
    )
    with pytest.raises(HoneError, match="loss"):
        export_winner(winner, "triton", Request(), tmp_path / "out")


def test_rows_for_the_warm_up_are_those_of_the_request(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    export_winner(winner, "triton", Request(), tmp_path / "out")
    request = json.loads((tmp_path / "out" / "golden" / "request.json").read_text())
    raw = (tmp_path / "out" / "models" / "digits" / "warmup" / "input-0.bin").read_bytes()
    np.testing.assert_array_equal(np.array(request["inputs"][0]["data"], np.float32), np.frombuffer(raw, np.float32))
