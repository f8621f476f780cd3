"""Requests of several clients in one call of the model."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from linear_winners import compute_linear, spec, write_winner
from onnx import helper
from running_server import read_metrics, run_serve, send

pytestmark = pytest.mark.toolchain


def test_every_client_gets_its_own_rows(serve, models) -> None:
    wrong: list[object] = []

    def call(at: int) -> None:
        connection = running.connect()
        for turn in range(20):
            rows = 1 + (at + turn) % 3
            x = np.random.default_rng(100 * at + turn).normal(size=(rows, 4)).astype(np.float32)
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [rows, 4], "data": x.tolist()}]}
            status, found = send(connection, "/v2/models/linear/infer", body)
            if status != 200 or not np.allclose(found["outputs"][0]["data"], compute_linear(x).ravel(), atol=1e-5):
                wrong.append(found)

    with serve(models / "linear", "--max-batch", "16", "--max-delay-ms", "20") as running:
        threads = [threading.Thread(target=call, args=(at,)) for at in range(16)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(120)
        metrics = read_metrics(running)
    assert not wrong
    assert metrics["hone_requests_total", "200", "linear", "rest"] == 320
    assert metrics["hone_call_rows_count", "linear"] < 200, "fewer calls than requests"


def test_a_model_whose_rows_depend_on_each_other_is_refused(server_environment, tmp_path) -> None:
    folder = write_winner(
        tmp_path / "centred",
        nodes=[
            helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
            helper.make_node("Sub", ["x", "mean"], ["y"]),
        ],
        inputs=[spec("x", "float32", "batch", 4)],
        outputs=[spec("y", "float32", "batch", 4)],
        rows={"x": np.arange(16, dtype=np.float32).reshape(4, 4)},
    )
    done = run_serve(folder, "--max-batch", "8")
    assert done.returncode == 3
    assert "Requests to centred cannot be joined." in done.stderr
    assert "kedro-hone explain batching-unfit" in done.stderr


def test_a_model_of_fixed_sizes_is_refused(server_environment, models) -> None:
    done = run_serve(models / "fixed", "--max-batch", "8")
    assert done.returncode == 3
    assert "not a dynamic number of rows" in done.stderr
