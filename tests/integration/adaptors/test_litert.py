"""LiteRT's adaptors in their own environment, on a small net that ``tests/toolchains/litert/record.py`` recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kedro_hone.adaptors.litert import adaptor as module

pytestmark = pytest.mark.toolchain

RECORDED = Path(__file__).parents[2] / "toolchains" / "litert" / "digits"
SPECS = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
SHAPES = [{"name": f"batch{size}", "sizes": {"batch": size}} for size in (1, 64)]
QUANTIZERS = ("int8-dynamic", "int8-weights", "int8-static")


@pytest.fixture(scope="module")
def python(environments):
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.versions["ai-edge-litert"].startswith("2.3.")
    return environment.python


@pytest.fixture
def bench(make_bench, python):
    bench = make_bench(module)
    bench.python = python
    return bench


@pytest.fixture
def recorded(tmp_path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "recorded"))


def transform(bench, name, path, **job):
    return bench.transform(f"litert.{name}", path, described=SPECS, static_shapes=SHAPES, **job)


def run(bench, path, feeds, **job):
    return bench.run(path, "tflite", feeds, described=SPECS, static_shapes=SHAPES, **job)


def refuse(bench, path, **job):
    """Return what loading a folder raises."""
    job = {"described": SPECS, "static_shapes": SHAPES, **job}
    return bench.call("run", path, "tflite", expect_error=True, **job)[0]["raised"]


def predict(bench, path, x):
    """Return the logits of whole batches of 64."""
    feeds = [{"image": x[start : start + 64]} for start in range(0, len(x), 64)]
    return np.concatenate([part["logits"] for part in run(bench, path, feeds)])


def test_xnnpack_computes_the_whole_graph_at_each_shape(bench, recorded, digits_samples):
    notes, output = transform(bench, "xnnpack", recorded)
    assert notes == {"metadata": {"xnnpack_parts": 1}}
    ones = [{"image": digits_samples.x[row : row + 1]} for row in range(64)]
    rows = np.concatenate([part["logits"] for part in run(bench, output, ones)])
    np.testing.assert_allclose(rows, predict(bench, output, digits_samples.x[:64]), atol=1e-4)
    assert (predict(bench, output, digits_samples.x).argmax(1) == digits_samples.y).mean() > 0.92


@pytest.mark.parametrize("name", QUANTIZERS)
def test_int8_is_smaller_and_keeps_its_accuracy(bench, recorded, digits_samples, name):
    notes, output = transform(bench, name, recorded, calibration=str(digits_samples.calibration))
    assert notes == {"metadata": {"quantization": f"litert.{name}"}}
    assert bench.call("describe", output, "tflite", described=SPECS, static_shapes=SHAPES)[0] == SPECS
    sizes = [(path / "model-batch64.tflite").stat().st_size for path in (output, recorded)]
    assert sizes[0] < 0.75 * sizes[1]
    exact, got = (predict(bench, path, digits_samples.x) for path in (recorded, output))
    assert not np.array_equal(got, exact)
    assert (got.argmax(1) == digits_samples.y).mean() > 0.92


def test_ranges_are_those_of_the_calibration_rows(bench, recorded, digits_samples, tmp_path):
    np.savez(tmp_path / "dark.npz", image=digits_samples.x[:64] / 100)
    _, output = transform(bench, "int8-static", recorded, calibration=str(tmp_path / "dark.npz"))
    assert (predict(bench, output, digits_samples.x).argmax(1) == digits_samples.y).mean() < 0.9
    np.savez(tmp_path / "none.npz", image=digits_samples.x[:0])
    notes, _ = transform(bench, "int8-static", recorded, calibration=str(tmp_path / "none.npz"))
    assert "too few rows" in notes["refused"]


def test_rows_of_another_number_are_no_shape_of_it(bench, recorded, digits_samples):
    assert "fed ((7, 1, 8, 8),)" in refuse(bench, recorded, feeds=[{"image": digits_samples.x[:7]}])


def test_files_that_are_not_what_the_model_says_are_not_opened(bench, recorded):
    index = json.loads((recorded / "index.json").read_text())
    path = recorded / "model-batch64.tflite"
    content = path.read_bytes()

    path.write_bytes(content[: len(content) // 2])
    assert "model-batch64.tflite cannot be opened" in refuse(bench, recorded)
    shutil.copyfile(recorded / "model-batch5.tflite", path)
    assert "has 'image' as float32 (5, 1, 8, 8)" in refuse(bench, recorded)
    path.unlink()
    assert "model-batch64.tflite is missing" in refuse(bench, recorded)
    path.write_bytes(content)
    index["outputs"][0]["key"] = "output_7"
    (recorded / "index.json").write_text(json.dumps(index))
    assert "has the tensors ['output_0']" in refuse(bench, recorded)
    (recorded / "index.json").write_text("[]")
    assert "index.json cannot be read" in refuse(bench, recorded)


def test_a_shape_cannot_name_a_file_elsewhere(bench, recorded):
    shapes = [{"name": "../recorded/batch64", "sizes": {"batch": 64}}]
    assert "no file's name" in refuse(bench, recorded, static_shapes=shapes)


def test_another_device_than_the_cpu_is_refused(bench, recorded):
    assert "for the device cuda:0" in refuse(bench, recorded, device="cuda:0")
