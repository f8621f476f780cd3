"""Every endpoint of the protocol by Triton's client: `triton_calls.py HTTP GRPC`, each HOST:PORT."""

from __future__ import annotations

import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http

X = np.array([[0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4]], np.float32)
WEIGHTS = (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) * np.float32(0.1)
MIXED = {
    "text": (np.array([b"a", "ü".encode()], object), "BYTES"),
    "half": (np.array([0.5, 2], np.float16), "FP16"),
    "count": (np.array([1, 2**40]), "INT64"),
    "pixel": (np.array([0, 255], np.uint8), "UINT8"),
    "flag": (np.array([True, False]), "BOOL"),
}


def read_metadata(client, **named) -> dict:
    found = client.get_model_metadata("linear", **named)
    if isinstance(found, dict):
        return found
    tensor = found.inputs[0]
    return {
        "name": found.name,
        "versions": list(found.versions),
        "inputs": [{"name": tensor.name, "datatype": tensor.datatype, "shape": [int(one) for one in tensor.shape]}],
    }


def check_endpoints(client) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    for version in ("", "1"):
        assert client.is_model_ready("linear", version)
        found = read_metadata(client, model_version=version)
        assert found["name"] == "linear"
        assert found["versions"] == ["1"]
        assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    found = client.get_server_metadata()
    assert (found["name"] if isinstance(found, dict) else found.name) == "kedro-hone"
    assert "binary_tensor_data" in (found["extensions"] if isinstance(found, dict) else found.extensions)


def check_linear(client, kit, **named) -> None:
    given = kit.InferInput("x", [2, 4], "FP32")
    given.set_data_from_numpy(X, **named.pop("data", {}))
    found = client.infer("linear", [given], request_id="seven", **named)
    np.testing.assert_allclose(found.as_numpy("y"), np.tanh(X @ WEIGHTS), rtol=1e-5)
    answer = found.get_response()
    assert (answer["id"] if isinstance(answer, dict) else answer.id) == "seven"
    assert (answer["model_version"] if isinstance(answer, dict) else answer.model_version) == "1"


def check_mixed(client, kit, *, outputs) -> None:
    inputs = []
    for name, (array, datatype) in MIXED.items():
        given = kit.InferInput(name, [2], datatype)
        given.set_data_from_numpy(array)
        inputs.append(given)
    found = client.infer("mixed", inputs, outputs=outputs)
    assert found.as_numpy("sum").tolist() == [2, 2**41]
    if outputs is None:
        for name, (array, _) in MIXED.items():
            assert found.as_numpy(f"{name}_out").tolist() == array.tolist(), name
    else:
        assert found.as_numpy("flag_out") is None


def main(http: str, grpc: str) -> None:
    client = tritonclient.http.InferenceServerClient(http)
    check_endpoints(client)
    kit = tritonclient.http
    for binary in (True, False):
        wanted = [kit.InferRequestedOutput("y", binary_data=binary)]
        check_linear(client, kit, outputs=wanted)
        check_linear(client, kit, outputs=wanted, data={"binary_data": False})
    check_linear(client, kit, request_compression_algorithm="gzip", response_compression_algorithm="gzip")
    check_linear(client, kit, request_compression_algorithm="deflate", model_version="1")
    # Without requested outputs this client asks for all of them as binary data.
    check_mixed(client, kit, outputs=None)
    check_mixed(client, kit, outputs=[kit.InferRequestedOutput("sum")])
    client.close()

    client = tritonclient.grpc.InferenceServerClient(grpc)
    check_endpoints(client)
    kit = tritonclient.grpc
    check_linear(client, kit)
    check_linear(client, kit, outputs=[kit.InferRequestedOutput("y")], model_version="1")
    check_mixed(client, kit, outputs=None)
    check_mixed(client, kit, outputs=[kit.InferRequestedOutput("sum")])
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
