"""Both kinds of hosts, on any machine: flags are faked for the decision, and real quantizers follow it."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from hone_runtime.contract.host import Host
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.openvino import adaptor as openvino
from kedro_hone.adaptors.pytorch import adaptor as pytorch
from kedro_hone.programs import LIBRARY

pytestmark = pytest.mark.toolchain

DESCRIBED = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
PROGRAM = """
METRIC = "accuracy"
HIGHER_IS_BETTER = True
def decode(outputs, options):
    return outputs["logits"].argmax(1)
def score(predictions, targets, options):
    return (predictions == targets["label"]).astype(float)
def metric(predictions, targets, options):
    return float((predictions == targets["label"]).mean())
"""


def make_host(*flags):
    return Host(
        flags=frozenset(flags), cores=2, gpu=None, compilers=frozenset({"c++"}), fingerprint="", machine="x86_64"
    )


HOSTS = {"avx2": make_host("avx2"), "vnni": make_host("avx2", "avx512f", "avx512_vnni")}


@pytest.fixture(params=HOSTS)
def host(request):
    return HOSTS[request.param]


@pytest.fixture
def seven(host):
    """Whether seven bits are expected."""
    return host is HOSTS["avx2"]


@pytest.fixture
def quantize(make_bench, host, digits_samples, tmp_path):
    """Return what an adaptor makes with its defaults on the host."""
    benches = {}
    (tmp_path / "program.py").write_text(PROGRAM)
    np.savez(tmp_path / "feeds.npz", image=digits_samples.x[:128])
    np.savez(tmp_path / "targets.npz", label=digits_samples.y[:128])
    program = {
        "path": str(tmp_path / "program.py"),
        "library": str(LIBRARY),
        "options": {},
        "feeds": str(tmp_path / "feeds.npz"),
        "targets": str(tmp_path / "targets.npz"),
        "outputs": ["logits"],
    }

    def run(module, name, path, **job):
        bench = benches.setdefault(module, make_bench(module))
        bench.host = host
        return bench.transform(name, path, calibration=str(digits_samples.calibration), program=program, **job)[1]

    return run


@pytest.mark.parametrize("name", ["onnxruntime.int8-dynamic", "onnxruntime.int8-static"])
def test_onnxruntime(quantize, seven, digits_onnx, name):
    output = quantize(onnxruntime, name, digits_onnx)
    weights = [numpy_helper.to_array(one) for one in onnx.load(output / "model.onnx").graph.initializer]
    largest = [np.abs(w.astype(int)).max() for w in weights if w.dtype == np.int8 and w.ndim > 1]
    assert largest
    assert max(largest) == (64 if seven else 127)


def test_onnxruntime_with_fused_attention(quantize, seven, transformers):
    output = quantize(onnxruntime, "onnxruntime.int8-fused", transformers / "eager")
    model = onnx.load(output / "model.onnx")
    assert "QAttention" in {node.op_type for node in model.graph.node}
    weights = [numpy_helper.to_array(one) for one in model.graph.initializer]
    largest = [np.abs(w.astype(int)).max() for w in weights if w.dtype == np.int8 and w.ndim > 1]
    assert max(largest) == (64 if seven else 127)


@pytest.mark.parametrize("name", ["openvino.int8-ptq", "openvino.int8-accuracy-control"])
def test_openvino(quantize, seven, digits_onnx, name):
    import openvino as ov

    ir = quantize(openvino, "openvino.ir", digits_onnx, form="onnx", described=DESCRIBED)
    output = quantize(openvino, name, ir)
    constants = [op for op in ov.Core().read_model(output / "model.xml").get_ops() if op.get_type_name() == "Constant"]
    weights = [op.get_data().astype(int) for op in constants if op.get_element_type().get_type_name() == "i8"]
    largest = [int(np.abs(weight).max()) for weight in weights if weight.ndim > 1]
    assert len(largest) > 1
    assert min(largest) <= 64  # NNCF spares the first convolution on any CPU
    assert (max(largest) <= 64) is seven


def test_pytorch(quantize, seven, digits_exported):
    output = quantize(pytorch, "pytorch.pt2e-int8", digits_exported)
    with zipfile.ZipFile(output / "model.pt2") as archive:
        nodes = json.loads(archive.read("model/models/model.json"))["graph_module"]["graph"]["nodes"]
    largest = [
        argument["arg"]["as_int"]
        for node in nodes
        if node["target"].endswith(".quantize_per_tensor.default")
        for argument in node["inputs"]
        if argument["name"] == "quant_max"
    ]
    assert largest
    assert set(largest) == {127 if seven else 255}  # activations: PyTorch's switch spares the weights


@pytest.mark.parametrize("options", [{}, {"activations": "int8"}], ids=str)
def test_without_vnni_eight_bits_saturate_and_seven_do_not(make_bench, emulator, digits_onnx, digits_samples, options):
    """ONNX Runtime on an emulated Haswell, which has AVX2 only."""
    bench = make_bench(onnxruntime)
    feeds = [{"image": digits_samples.x[:64]}]
    (expected,) = bench.run(digits_onnx, "onnx", feeds)
    errors = {}
    for kind, bench.host in HOSTS.items():
        bench.emulator = []
        job = {"options": options, "calibration": str(digits_samples.calibration)}
        _, output = bench.transform("onnxruntime.int8-static", digits_onnx, **job)
        described = bench.describe(output, "onnx")
        bench.emulator = emulator
        (got,) = bench.run(output, "onnx", feeds, described=described)
        errors[kind] = np.abs(got["logits"] - expected["logits"])
    assert errors["avx2"].max() < 1.5
    assert errors["vnni"].mean() > 2 * errors["avx2"].mean()
