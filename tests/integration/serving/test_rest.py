"""The Open Inference Protocol over HTTP, as any client sends it."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess

import numpy as np
import pytest
from linear_winners import compute_linear
from running_server import read_metrics, send

pytestmark = pytest.mark.toolchain

X = [[0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4]]
INPUT = {"name": "x", "datatype": "FP32", "shape": [2, 4]}
INFER = "/v2/models/linear/infer"
VALID = {"inputs": [{**INPUT, "data": X}]}


def read_output(answer, name: str = "y"):
    (found,) = [one for one in answer["outputs"] if one["name"] == name]
    return np.array(found["data"]).reshape(found["shape"])


def test_every_endpoint_of_the_protocol(server) -> None:
    connection = server.connect()
    assert send(connection, "/v2/health/live") == (200, {"live": True})
    assert send(connection, "/v2/health/ready") == (200, {"ready": True})
    status, found = send(connection, "/v2")
    assert (status, found["name"], found["extensions"]) == (200, "kedro-hone", ["binary_tensor_data"])
    assert send(connection, "/v2/models") == (200, {"models": ["linear", "mixed", "fixed", "odd"]})
    for path in ("/v2/models/linear", "/v2/models/linear/versions/1"):
        assert send(connection, path) == (
            200,
            {
                "name": "linear",
                "versions": ["1"],
                "platform": "onnxruntime_onnx",
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
            },
        )
        assert send(connection, f"{path}/ready") == (200, {"name": "linear", "ready": True})
        status, found = send(connection, f"{path}/infer", {**VALID, "id": "seven"})
        assert (status, found["model_name"], found["model_version"], found["id"]) == (200, "linear", "1", "seven")
        np.testing.assert_allclose(read_output(found), compute_linear(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/docs", 404),
        ("/openapi.json", 404),
        ("/v1/models/linear", 404),
        ("/v2/models/nothing", 404),
        ("/v2/models/linear/versions/2", 404),
        ("/v2/models/nothing/ready", 404),
        ("/v2/models/../linear", 404),
        (INFER, 405),
    ],
)
def test_nothing_else_is_there(server, path: str, status: int) -> None:
    found = server.call(path)
    assert found[0] == status
    assert isinstance(found[1]["error"], str)


@pytest.mark.parametrize(
    "path", ["/v2/repository/models/linear/unload", "/v1/models/linear:predict", "/v2/health/live"]
)
def test_nothing_else_can_be_posted(server, path: str) -> None:
    status, found = server.call(path, {})
    assert status in {404, 405}
    assert isinstance(found["error"], str)
    assert server.call("/v2/models/linear/ready")[0] == 200


def test_a_request_needs_no_content_type_and_may_be_compressed(server) -> None:
    body = json.dumps(VALID).encode()
    for content, headers in (
        (body, {}),
        (body, {"content_type": "text/odd"}),
        (gzip.compress(body), {"content_encoding": "gzip"}),
        (body, {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "x", "ce_type": "y"}),
    ):
        status, found = server.call(INFER, content, **headers)
        assert status == 200
        np.testing.assert_allclose(read_output(found), compute_linear(X), rtol=1e-5)


def test_every_type_goes_in_and_out(server) -> None:
    data = {"text": ["a", "ü"], "count": [1, 2**40], "pixel": [0, 255], "flag": [True, False]}
    kinds = {"text": "BYTES", "count": "INT64", "pixel": "UINT8", "flag": "BOOL"}
    inputs = [{"name": name, "datatype": kinds[name], "shape": [2], "data": data[name]} for name in data]
    half = np.array([0.5, 2], "<f2").tobytes()
    inputs.append({"name": "half", "datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": len(half)}})
    wanted = [{"name": f"{name}_out"} for name in data] + [{"name": "sum"}]
    wanted.append({"name": "half_out", "parameters": {"binary_data": True}})
    head = json.dumps({"inputs": inputs, "outputs": wanted}).encode()
    connection = server.connect()
    path = "/v2/models/mixed/infer"
    connection.request("POST", path, head + half, {"Inference-Header-Content-Length": str(len(head))})
    answer = connection.getresponse()
    length = int(answer.headers["inference-header-content-length"])
    body = answer.read()
    found = {one["name"]: one for one in json.loads(body[:length])["outputs"]}
    assert list(found) == [one["name"] for one in wanted], "in the order of the request"
    assert {name: found[f"{name}_out"]["data"] for name in data} == data
    assert {name: found[f"{name}_out"]["datatype"] for name in data} == kinds
    assert found["sum"]["data"] == [2, 2**41]
    assert body[length:] == half


def test_only_requested_outputs_are_returned(server) -> None:
    status, found = server.call(INFER, {**VALID, "outputs": [{"name": "y"}]})
    assert (status, [one["name"] for one in found["outputs"]]) == (200, ["y"])


def test_a_model_of_fixed_sizes_takes_these_only(server) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}
    status, found = server.call("/v2/models/fixed/infer", {"inputs": [tensor]})
    assert (status, found["outputs"][0]["data"]) == (200, [-1, -2, -3, -4, -5, -6])
    status, found = server.call("/v2/models/fixed/infer", {"inputs": [{**tensor, "shape": [1, 6]}]})
    assert (status, found["error"]) == (400, "x has the shape (1, 6); the model takes (2, 3)")


def test_what_json_lacks_is_never_written_as_something_else(server) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [2], "data": [-1, 4]}
    status, found = server.call("/v2/models/odd/infer", {"inputs": [tensor]})
    assert status == 400
    assert "request it as binary data" in found["error"]
    status, body = server.call("/v2/models/odd/infer", {"inputs": [tensor], "parameters": {"binary_data_output": True}})
    assert status == 200
    assert np.isnan(np.frombuffer(body[-8:], "<f4")).tolist() == [True, False]


def test_each_output_is_written_as_it_was_requested(server) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": X[0]}
    for wanted, parameters, binary in (
        ([{"name": "y", "parameters": {"binary_data": False}}], {"binary_data_output": True}, False),
        ([{"name": "y"}], {"binary_data_output": True}, True),
        ([{"name": "y", "parameters": {"binary_data": True}}], {}, True),
        ([], {"binary_data_output": False}, False),
    ):
        status, found = server.call(INFER, {"inputs": [tensor], "outputs": wanted, "parameters": parameters})
        assert status == 200
        assert isinstance(found, bytes) == binary, (wanted, parameters)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_as_in_the_documentation(server) -> None:
    command = ["curl", "--silent", "--fail", f"http://127.0.0.1:{server.http_port}{INFER}", "--data", json.dumps(VALID)]
    run = subprocess.run(command, capture_output=True, check=True, timeout=60)
    np.testing.assert_allclose(read_output(json.loads(run.stdout)), compute_linear(X), rtol=1e-5)


def test_metrics_count_by_model_code_and_protocol(server) -> None:
    before = read_metrics(server)
    for _ in range(3):
        assert server.call(INFER, VALID)[0] == 200
    assert server.call(INFER, {"inputs": []})[0] == 400
    assert server.call("/v2/models/nothing/infer", VALID)[0] == 404
    after = read_metrics(server)
    grown = {key: value - before.get(key, 0) for key, value in after.items()}
    assert grown["hone_requests_total", "200", "linear", "rest"] == 3
    assert grown["hone_requests_total", "400", "linear", "rest"] == 1
    assert grown["hone_requests_total", "", "404", "rest"] == 1
    assert grown["hone_request_seconds_count", "linear", "rest"] == 4
    assert grown["hone_queue_seconds_count", "linear"] == 3
    assert grown["hone_call_rows_sum", "linear"] == 6
    assert after["hone_pending_requests", "linear"] == 0
    assert not [key for key in after if "nothing" in key]


def test_the_log_has_a_line_for_the_start_only(server) -> None:
    for _ in range(5):
        server.call(INFER, VALID)
        server.call(INFER, {"inputs": []})
    assert server.log.read_text() == ""
