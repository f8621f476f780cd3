from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest
from served_winners import make_composite, make_onnx_winner, make_text_winner

from hone_runtime.signing.policy import Policy
from kedro_hone.serving.export.exports import export_winner
from kedro_hone.serving.export.target import Request
from kedro_hone.serving.runtime_files import write_runtime
from kedro_hone.serving.winner import ServedWinner


def test_the_settings_describe_the_winner(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "mlserver", Request(max_batch=16), tmp_path / "out")
    assert not exported.gap
    assert "merged calls" in exported.export.notes[1]
    assert json.loads((tmp_path / "out" / "model-settings.json").read_text()) == {
        "name": "digits",
        "implementation": "model.HoneModel",
        "platform": "kedro-hone_onnxruntime",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "label", "datatype": "INT64", "shape": [-1]},
        ],
        "parallel_workers": 0,
        "parameters": {"uri": "./winner", "version": "1", "extra": {"verify": None, "trust": []}},
        "max_batch_size": 16,
        "max_batch_time": 0.002,
    }
    assert (tmp_path / "out" / "winner" / "evidence" / "golden.json").is_file()


@pytest.fixture
def serve(tmp_path, model_servers):
    """Start MLServer on an exported folder, and return a function that posts a document to one of its models."""
    with ExitStack() as ended:

        def serve(winner: ServedWinner, folder: Path):
            runtime = tmp_path / "runtime"
            write_runtime(winner.artifact, runtime)
            ports = find_ports(3)
            named = ("MLSERVER_HTTP_PORT", "MLSERVER_GRPC_PORT", "MLSERVER_METRICS_PORT")
            own = {
                "PYTHONPATH": f"{model_servers}:{runtime}",
                "MLSERVER_HOST": "127.0.0.1",
                "ORT_DISABLE_TELEMETRY": "1",
            }
            environment = {**os.environ, **own, **dict(zip(named, map(str, ports), strict=True))}
            log = tmp_path / "server.log"
            command = [sys.executable, "-c", "from mlserver.cli import main; main()", "start", "."]
            with log.open("wb") as output:
                process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
            ended.callback(process.wait, 60)
            ended.callback(process.terminate)
            wait_until_ready(ports[0], f"/v2/models/{winner.name}/ready", process=process, log=log)
            return lambda document: call(ports[0], f"/v2/models/{winner.name}/infer", document)[1]

        yield serve


def find_ports(count: int) -> list[int]:
    """Return free ports, each another one: they are held until all are found."""
    with ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in listeners]


def wait_until_ready(port: int, path: str, *, process: subprocess.Popen, log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        with suppress(OSError):
            if call(port, path)[0] == HTTPStatus.OK:
                return
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def call(port: int, path: str, document: bytes | None = None) -> tuple[int, dict]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    with closing(connection):
        connection.request("POST" if document else "GET", path, document, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")


@pytest.mark.parametrize(
    ("make", "most"),
    [(make_onnx_winner, 4), (make_composite, None), (make_text_winner, None)],
    ids=["merged", "composite", "text"],
)
def test_mlserver_itself_returns_the_golden_rows(tmp_path, stack, serve, make, most) -> None:
    winner = make(tmp_path / "winner", stack=stack)
    export_winner(winner, "mlserver", Request(max_batch=most), tmp_path / "out")
    infer = serve(winner, tmp_path / "out")
    answer = infer((tmp_path / "out" / "golden" / "request.json").read_bytes())
    due = json.loads((tmp_path / "out" / "golden" / "response.json").read_text())
    assert (answer["id"], answer["model_name"]) == ("golden", "digits")
    assert [(one["name"], one["datatype"], one["shape"]) for one in answer["outputs"]] == [
        (one["name"], one["datatype"], one["shape"]) for one in due["outputs"]
    ]
    for found, wanted in zip(answer["outputs"], due["outputs"], strict=True):
        equal = found["data"] == wanted["data"]
        assert equal or np.allclose(found["data"], wanted["data"], rtol=1e-5), found
    refused = infer(b'{"inputs": [{"name": "z", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}')
    assert f"the inputs are {sorted(winner.golden.inputs)}, and not ['z']" in refused["error"]


def test_the_settings_have_only_keys_that_mlserver_reads(tmp_path, stack, model_servers) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    export_winner(winner, "mlserver", Request(max_batch=16), tmp_path / "out")
    code = (
        "import json, sys; from mlserver.settings import ModelParameters, ModelSettings; "
        "names = lambda model: {name.rstrip('_') for name in model.model_fields}; "
        "given = json.load(open('model-settings.json')); "
        "print(sorted(set(given) - names(ModelSettings)), sorted(set(given['parameters']) - names(ModelParameters)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(model_servers)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "out", env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[0] == "[] []"


def test_a_signature_is_required_there_too(tmp_path, stack) -> None:
    winner, key = make_onnx_winner(tmp_path / "winner", stack=stack), tmp_path / "key.pem"
    key.write_text("-----BEGIN PUBLIC KEY-----\nabc\n")
    verify = Policy(keys=(key,), name="digits")
    export_winner(winner, "mlserver", Request(verify=verify, trusted=True), tmp_path / "out")
    extra = json.loads((tmp_path / "out" / "model-settings.json").read_text())["parameters"]["extra"]
    assert extra == {"verify": {"keys": [key.read_text()], "name": "digits"}, "trust": ["native"]}
    assert str(tmp_path) not in json.dumps(extra)
