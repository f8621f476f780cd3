"""Tuned int8 on networks of which a few layers have outliers that change no output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.openvino import adaptor as openvino
from kedro_hone.programs import LIBRARY

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("outlier_models.py")
LIMIT = 0.02
INPUTS = {"transformer": "ids", "cnn": "image", "residual": "image"}
PROGRAM = """
METRIC, HIGHER_IS_BETTER = "accuracy", True
def decode(outputs, options):
    return outputs["logits"].argmax(1)
def score(predictions, targets, options):
    return (predictions == targets["label"]).astype(float)
def metric(predictions, targets, options):
    return float((predictions == targets["label"]).mean())
"""
QUANTIZABLE = {"Convolution", "MatMul", "ReduceMean"}
PLAIN_SCALES = {"smooth_quant": -1}
"""SmoothQuant moves these outliers into the weights, so that plain int8 holds; without it, it does not."""
CASES = {
    "onnxruntime-transformer": ("onnxruntime.int8-dynamic", "transformer", {}),
    "onnxruntime-cnn": ("onnxruntime.int8-static", "cnn", {}),
    "onnxruntime-residual": ("onnxruntime.int8-static", "residual", {}),
    "openvino-residual": ("openvino.int8-ptq", "residual", {}),
    "openvino-transformer": ("openvino.int8-ptq", "transformer", PLAIN_SCALES),
    "openvino-cnn": ("openvino.int8-ptq", "cnn", {}),
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory) -> Path:
    """A folder for each network; in each is ``model.onnx``, in ``ir`` the same as IR, and three splits."""
    import openvino as ov

    folder = tmp_path_factory.mktemp("networks")
    done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    for name in INPUTS:
        (folder / name / "onnx").mkdir()
        (folder / name / "model.onnx").rename(folder / name / "onnx" / "model.onnx")
        (folder / name / "ir").mkdir()
        model = ov.convert_model(folder / name / "onnx" / "model.onnx")
        ov.save_model(model, folder / name / "ir" / "model.xml", compress_to_fp16=False)
    return folder


class Tuning:
    """Runs the adaptors of one toolchain on one network, and measures accuracy on its gate rows."""

    def __init__(self, make_bench, networks: Path, tool: str, network: str, scratch: Path) -> None:
        self.bench = make_bench({"onnxruntime": onnxruntime, "openvino": openvino}[tool])
        self.data, self.input, self.tool = networks / network, INPUTS[network], tool
        self.form = "onnx" if tool == "onnxruntime" else "openvino-ir"
        self.model = self.data / self.form.removeprefix("openvino-")
        search = np.load(self.data / "search.npz")
        (scratch / "program.py").write_text(PROGRAM)
        np.savez(scratch / "feeds.npz", **{self.input: search[self.input]})
        np.savez(scratch / "targets.npz", label=search["label"])
        self.program = {
            "path": str(scratch / "program.py"),
            "library": str(LIBRARY),
            "options": {},
            "feeds": str(scratch / "feeds.npz"),
            "targets": str(scratch / "targets.npz"),
            "outputs": ["logits"],
        }

    def quantize(self, name: str, options=None, **job):
        job = {"calibration": str(self.data / "calibration.npz"), "drop": LIMIT, "seconds": 500.0, **job}
        return self.bench.transform(name, self.model, options=options, program=self.program, **job)

    def tune(self, options=None, **job):
        return self.quantize(f"{self.tool}.int8-tuned", options, **job)

    def measure(self, path: Path) -> float:
        gate = np.load(self.data / "gate.npz")
        (outputs,) = self.bench.run(path, self.form, [{self.input: gate[self.input]}])
        return float((outputs["logits"].argmax(1) == gate["label"]).mean())


@pytest.fixture
def make_tuning(make_bench, networks, tmp_path):
    return lambda tool, network: Tuning(make_bench, networks, tool, network, tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_most_operators_are_quantized_where_plain_int8_misses_the_limit(make_tuning, case):
    name, network, options = CASES[case]
    tuning = make_tuning(name.split(".")[0], network)
    source = tuning.measure(tuning.model)
    _, ruined = tuning.quantize(name, options)
    assert source - tuning.measure(ruined) > 5 * LIMIT
    notes, output = tuning.tune(options)
    tuned = notes["metadata"]["tuned"]
    assert source - tuning.measure(output) < LIMIT
    assert tuned["int8"] / tuned["operators"] >= 0.7
    assert tuned["evaluations"] <= 8
    assert tuned["scored"] == tuned["operators"]
    assert len(tuned["excluded"]) == tuned["operators"] - tuned["int8"]
    assert tuned["curve"][0]["share"] == 1
    assert all(point["time"] > 0 for point in tuned["curve"])
    assert notes["metadata"]["quantized_operators"]
    again, _ = tuning.bench.transform(
        f"{tuning.tool}.int8-tuned", output, program=tuning.program, calibration=str(tuning.data / "calibration.npz")
    )
    assert again == {"nothing_to_do": "the graph is quantized already"}


def test_the_operators_with_outliers_stay_in_fp32(make_tuning):
    tuned = make_tuning("onnxruntime", "transformer").tune()[0]["metadata"]["tuned"]
    guilty = ("1/out", "2/narrow", "3/out")
    assert tuned["excluded"] == [f"/blocks/blocks.{name}/MatMul" for name in guilty]
    assert tuned["scheme"] == "dynamic"


def test_biases_are_corrected_only_where_that_lowers_the_divergence(make_tuning):
    """With these outliers NNCF's correction costs more than it gains, even if their layers are excluded."""
    tuning = make_tuning("openvino", "residual")
    notes, output = tuning.tune()
    tuned = notes["metadata"]["tuned"]
    assert not tuned["corrects_bias"]
    _, corrected = tuning.quantize("openvino.int8-ptq", {"exclude": tuned["excluded"]})
    gate = np.load(tuning.data / "gate.npz")["image"]
    wanted, ours, theirs = (
        tuning.bench.run(path, tuning.form, [{"image": gate}])[0]["logits"]
        for path in (tuning.model, output, corrected)
    )
    assert np.abs(ours - wanted).mean() < 0.9 * np.abs(theirs - wanted).mean()


def test_basic_finds_the_same_operators(make_tuning):
    tuning = make_tuning("onnxruntime", "cnn")
    found = [tuning.tune({"strategy": name})[0]["metadata"]["tuned"] for name in ("sensitivity", "basic")]
    assert found[0]["excluded"] == found[1]["excluded"]
    assert found[1]["evaluations"] == 1 + len(found[1]["excluded"])
    refused, _ = tuning.tune({"strategy": "exhaustive"})
    assert "the strategy exhaustive needs 2^" in refused["refused"]


@pytest.mark.parametrize("tool", ["onnxruntime", "openvino"])
def test_it_is_refused_where_nothing_helps(make_tuning, tool):
    """Only operators with outliers are left if the recipe excludes the others."""
    import openvino as ov

    tuning = make_tuning(tool, "cnn")
    guilty = tuning.tune()[0]["metadata"]["tuned"]["excluded"]
    if tool == "onnxruntime":
        names = [node.name for node in onnx.load(tuning.model / "model.onnx").graph.node]
    else:
        model = ov.Core().read_model(tuning.model / "model.xml")
        names = [node.get_friendly_name() for node in model.get_ops() if node.get_type_name() in QUANTIZABLE]
    notes, output = tuning.tune({"exclude": [name for name in names if name not in guilty]})
    assert f"too few operators can be in int8: at most 0 of {len(guilty)} operators hold the limit" in notes["refused"]
    assert "accuracy drops by 0." in notes["refused"]
    assert not list(output.iterdir())


@pytest.mark.parametrize("tool", ["onnxruntime", "openvino"])
def test_nothing_is_done_where_plain_int8_holds(make_tuning, tool):
    """With a limit that no drop reaches, one candidate is built and validated."""
    notes, output = make_tuning(tool, "cnn").tune(drop=2.0)
    assert "holds the gate as it is: accuracy drops by" in notes["nothing_to_do"]
    assert not list(output.iterdir())


def test_the_default_limit_is_the_gates(make_tuning):
    assert make_tuning("onnxruntime", "cnn").tune(drop=None)[0]["metadata"]["tuned"]["limit"] == 0.01


def test_nodes_without_names_are_tuned(make_tuning, tmp_path):
    tuning = make_tuning("onnxruntime", "cnn")
    model = onnx.load(tuning.model / "model.onnx")
    for node in model.graph.node:
        node.ClearField("name")
    (tmp_path / "unnamed").mkdir()
    onnx.save(model, tmp_path / "unnamed" / "model.onnx")
    tuning.model = tmp_path / "unnamed"
    tuned = tuning.tune()[0]["metadata"]["tuned"]
    assert 0 < len(tuned["excluded"]) < 4
    assert all(tuned["excluded"])


@pytest.mark.parametrize("network", INPUTS)
def test_the_scheme_is_dynamic_for_transformers(networks, network):
    folder = onnxruntime.TOOLCHAIN.worker.parent
    load_file("hone_onnxruntime", str(folder / "__init__.py"))
    from hone_onnxruntime import graphs, tuning

    scheme = tuning.choose_scheme(graphs.read_graph(networks / network / "onnx"))
    assert scheme == ("dynamic" if network == "transformer" else "static")
