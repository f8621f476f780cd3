"""One request over gRPC that takes a while: `grpc_slow.py HOST:PORT`."""

from __future__ import annotations

import sys

import numpy as np
import tritonclient.grpc


def main(address: str) -> None:
    client = tritonclient.grpc.InferenceServerClient(address)
    given = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
    given.set_data_from_numpy(np.ones((1, 4), np.float32))
    assert client.infer("slow", [given]).as_numpy("y").tolist() == [[1, 1, 1, 1]]


if __name__ == "__main__":
    main(sys.argv[1])
