"""Wrong requests over gRPC, each followed by a valid one on the same channel: `grpc_malformed.py HOST:PORT`."""

from __future__ import annotations

import sys

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as services

RAW = np.array([[0.1, 0.2, 0.3, 0.4]], "<f4").tobytes()
CODE = grpc.StatusCode


def make(*, name="x", datatype="FP32", shape=(1, 4), raw=(RAW,), contents=None, model="linear", version="", outputs=()):
    request = messages.ModelInferRequest(model_name=model, model_version=version, raw_input_contents=raw)
    tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
    for field, values in (contents or {}).items():
        getattr(tensor.contents, field).extend(values)
    for one in outputs:
        request.outputs.add(name=one)
    return request


WRONG = [
    (make(model="nothing"), CODE.NOT_FOUND),
    (make(version="2"), CODE.NOT_FOUND),
    (make(name="z"), CODE.INVALID_ARGUMENT),
    (make(datatype="INT64"), CODE.INVALID_ARGUMENT),
    (make(datatype="???"), CODE.INVALID_ARGUMENT),
    (make(shape=(4,)), CODE.INVALID_ARGUMENT),
    (make(shape=(1, 5)), CODE.INVALID_ARGUMENT),
    (make(shape=(-1, 4)), CODE.INVALID_ARGUMENT),
    (make(shape=(0, 4), raw=(b"",)), CODE.INVALID_ARGUMENT),
    (make(shape=(2**40, 4)), CODE.INVALID_ARGUMENT),
    (make(shape=(101, 4), raw=(b"\0" * 1616,)), CODE.RESOURCE_EXHAUSTED),
    (make(raw=(RAW[:-1],)), CODE.INVALID_ARGUMENT),
    (make(raw=(RAW, RAW)), CODE.INVALID_ARGUMENT),
    (make(raw=()), CODE.INVALID_ARGUMENT),
    (make(contents={"fp32_contents": [1, 2, 3, 4]}), CODE.INVALID_ARGUMENT),
    (make(raw=(), contents={"int64_contents": [1, 2, 3, 4]}), CODE.INVALID_ARGUMENT),
    (make(raw=(), contents={"fp32_contents": [1, 2, 3]}), CODE.INVALID_ARGUMENT),
    (make(shape=(1,) * 100_000), CODE.INVALID_ARGUMENT),
    (make(outputs=("z",)), CODE.INVALID_ARGUMENT),
    (make(outputs=("y",) * 2000), CODE.INVALID_ARGUMENT),
    (make(outputs=("y", "y")), CODE.INVALID_ARGUMENT),
    (messages.ModelInferRequest(model_name="linear"), CODE.INVALID_ARGUMENT),
    (make(raw=(b"\0" * (2 << 20),)), CODE.RESOURCE_EXHAUSTED),
    (
        make(model="mixed", name="pixel", datatype="UINT8", shape=(1,), raw=(), contents={"uint_contents": [256]}),
        CODE.INVALID_ARGUMENT,
    ),
]


def expect(code, call, *arguments, **named) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call(*arguments, timeout=60, **named)
    assert refused.value.code() == code, (refused.value.details(), arguments)
    assert "Traceback" not in refused.value.details()


def main(address: str) -> None:
    channel = grpc.insecure_channel(address)
    stub = services.GRPCInferenceServiceStub(channel)
    for request, code in WRONG:
        expect(code, stub.ModelInfer, request)
        assert len(stub.ModelInfer(make(), timeout=60).raw_output_contents) == 1
    expect(CODE.UNIMPLEMENTED, stub.ModelInfer, make(), compression=grpc.Compression.Gzip)
    expect(CODE.UNIMPLEMENTED, stub.RepositoryModelUnload, messages.RepositoryModelUnloadRequest(model_name="linear"))
    expect(CODE.UNIMPLEMENTED, stub.RepositoryModelLoad, messages.RepositoryModelLoadRequest(model_name="linear"))
    garbage = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    for sent in (b"\xff" * 50, b"\x0a\xff\xff\xff\xff\x0f"):
        with pytest.raises(grpc.RpcError):
            garbage(sent, timeout=60)
    answer = stub.ModelInfer(make(raw=(), contents={"fp32_contents": [0.1, 0.2, 0.3, 0.4]}, outputs=("y",)), timeout=60)
    assert len(answer.outputs[0].contents.fp32_contents) == 3


if __name__ == "__main__":
    main(sys.argv[1])
