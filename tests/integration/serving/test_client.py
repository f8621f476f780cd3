"""Generated clients: checked by mypy and protoc, compared with tritonclient's own messages, and called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installations import find_environments
from served_interfaces import INTERFACES, make_winner

from kedro_hone.serving.client.folder import write_client
from kedro_hone.serving.client.interface import make_interface
from kedro_hone.serving.environment import SERVER

pytestmark = pytest.mark.toolchain

SERVICE = """
import json, sys
from google.protobuf import descriptor_pb2
from tritonclient.grpc import service_pb2

def describe(message):
    fields = {field.name: (field.number, field.type, field.label, field.type_name) for field in message.field}
    return fields, {nested.name: describe(nested) for nested in message.nested_type}

ours, theirs = descriptor_pb2.FileDescriptorSet(), descriptor_pb2.FileDescriptorProto()
ours.ParseFromString(open(sys.argv[1], "rb").read())
service_pb2.DESCRIPTOR.CopyToProto(theirs)
(ours,) = ours.file
assert ours.package == theirs.package, (ours.package, theirs.package)
known = {message.name: describe(message) for message in theirs.message_type}
for message in ours.message_type:
    fields, nested = describe(message)
    due, due_nested = known[message.name]
    assert fields.items() <= due.items(), (message.name, fields, due)
    for name, (inner, _) in nested.items():
        assert inner.items() <= due_nested[name][0].items(), (name, inner, due_nested[name][0])
(service,), (other,) = ours.service, [one for one in theirs.service if one.name == "GRPCInferenceService"]
methods = {one.name: (one.input_type, one.output_type) for one in other.method}
for one in service.method:
    assert methods[one.name] == (one.input_type, one.output_type), one.name
print(len(ours.message_type), len(service.method))
"""


CALLS = """
import sys
import numpy as np
from linear_client import InterfaceError, LinearClient, ServerError
from mixed_client import MixedClient

url, protocol, dead = sys.argv[1:]
with LinearClient(url, protocol=protocol) as linear, MixedClient(url, protocol=protocol) as mixed:
    linear.check()
    mixed.check()
    x = np.array([[0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4]], np.float32)
    weights = (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) * np.float32(0.1)
    result = linear.infer(x=x)
    assert result.y.dtype == np.float32
    assert np.allclose(result.y, np.tanh(x @ weights), atol=1e-6), result.y
    kinds = {
        "text": np.array(["gr\xfcn", ""]),
        "half": np.array([0.5, 2], np.float16),
        "count": np.array([1, 2**40]),
        "pixel": np.array([0, 255], np.uint8),
        "flag": np.array([True, False]),
    }
    same = mixed.infer(**kinds)
    for name, array in kinds.items():
        returned = getattr(same, f"{name}_out")
        assert returned.dtype.kind == array.dtype.kind, (name, returned.dtype)
        assert returned.tolist() == array.tolist(), (name, returned)
    assert same.sum.tolist() == [2, 2**41]
    for wrong in (x.astype(np.float64), x[:, :3]):
        try:
            linear.infer(x=wrong)
        except InterfaceError as error:
            assert "the argument x" in str(error)
        else:
            raise AssertionError(wrong)
    try:
        linear.infer(x=np.zeros((101, 4), np.float32))
    except ServerError as error:
        assert "101 rows" in str(error), error
    else:
        raise AssertionError
    LinearClient.MODEL = "mixed"
    try:
        linear.check()
    except InterfaceError as error:
        assert "'x'" in str(error)
    else:
        raise AssertionError
with LinearClient(dead, protocol=protocol, timeout=2.0) as absent:
    try:
        absent.check()
    except ServerError:
        print("called")
"""


@pytest.fixture(scope="module")
def python(server_environment) -> str:
    """The interpreter of the server's environment, which has protoc."""
    return str(find_environments().ensure(SERVER).python)


@pytest.fixture(scope="module")
def clients(tmp_path_factory) -> Path:
    """A folder with a client for each interface."""
    folder = tmp_path_factory.mktemp("clients")
    for case, sides in INTERFACES.items():
        name = case.replace(" ", "-")
        write_client(make_interface(make_winner(*sides, name=name)), folder / name)
    return folder


def test_every_package_passes_strict_types(clients: Path) -> None:
    folders = [str(path.parent) for path in clients.glob("*/*_client/py.typed")]
    assert len(folders) == len(INTERFACES)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, *folders]
    run = subprocess.run(command, cwd=clients, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("case", INTERFACES)
def test_protoc_compiles_the_named_messages(case: str, clients: Path, python: str, tmp_path: Path) -> None:
    folder = clients / case.replace(" ", "-") / "proto"
    names = [path.name for path in sorted(folder.glob("*.proto"))]
    assert len(names) == 2
    command = [python, "-P", "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={tmp_path}", *names]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "warning" not in run.stderr


def test_the_service_is_that_of_the_protocol(
    clients: Path, python: str, triton_client: dict[str, str], tmp_path: Path
) -> None:
    folder, found = clients / "text" / "proto", tmp_path / "found.bin"
    command = [python, "-P", "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={found}"]
    subprocess.run([*command, "open_inference.proto"], check=True)
    run = run_python(triton_client, SERVICE, str(found))
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["14", "6"]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_generated_client_calls_the_server(
    protocol: str, server, models: Path, triton_client: dict[str, str], tmp_path: Path
) -> None:
    for name in ("linear", "mixed"):
        command = [sys.executable, "-m", "kedro_hone", "client", str(models / name), "-o", str(tmp_path / name)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    port = server.http_port if protocol == "http" else int(server.line["grpc"].rpartition(":")[2])
    places = (triton_client["PYTHONPATH"], str(tmp_path / "linear"), str(tmp_path / "mixed"))
    variables = {**triton_client, "PYTHONPATH": os.pathsep.join(places)}
    run = run_python(variables, CALLS, f"127.0.0.1:{port}", protocol, "127.0.0.1:9")
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["called"]


def run_python(variables: dict[str, str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
