"""ExecuTorch on a net for digits, in an environment of its own: compiled for each shape, in fp32 and in int8."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kedro_hone.adaptors.executorch import adaptor as module

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SHAPES = [{"name": name, "sizes": {"batch": size}} for name, size in (("batch1", 1), ("batch64", 64))]
SPECS = {
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}],
}
TOLD = {"described": SPECS, "static_shapes": SHAPES}


@pytest.fixture(scope="module")
def bench(make_shared_bench, environments):
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.versions["executorch"].startswith("1.5."), environment
    bench = make_shared_bench(module)
    bench.python = environment.python
    return bench


@pytest.fixture(scope="module")
def made(bench, digits_exported, digits_samples) -> dict[str, Path]:
    """What both adaptors write of the net."""
    found = {}
    for name in ("xnnpack", "xnnpack-int8"):
        notes, output = bench.transform(
            f"executorch.{name}",
            digits_exported,
            described=SPECS,
            shapes=SHAPES,
            calibration=str(digits_samples.calibration),
        )
        assert notes.pop("static_shapes") == ["batch1", "batch64"], notes
        found[name] = output
    return found


def predict(bench, path: Path, x: np.ndarray, **job) -> np.ndarray:
    """Return the logits of whole batches of 64."""
    feeds = [{"image": x[start : start + 64]} for start in range(0, len(x), 64)]
    return np.concatenate([part["logits"] for part in bench.run(path, "executorch", feeds, **TOLD, **job)])


def test_fp32_is_the_source(bench, made, digits_onnx, digits_samples):
    import onnxruntime

    session = onnxruntime.InferenceSession(digits_onnx / "model.onnx", providers=["CPUExecutionProvider"])
    (due,) = session.run(None, {"image": digits_samples.x})
    np.testing.assert_allclose(predict(bench, made["xnnpack"], digits_samples.x), due, atol=1e-4)


def test_int8_is_smaller_and_keeps_its_accuracy(bench, made, digits_samples):
    sizes = [(made[name] / "model-batch64.pte").stat().st_size for name in ("xnnpack-int8", "xnnpack")]
    assert sizes[0] < 0.4 * sizes[1]
    got = predict(bench, made["xnnpack-int8"], digits_samples.x)
    assert (got.argmax(1) == digits_samples.y).mean() > 0.95
    assert not np.allclose(got, predict(bench, made["xnnpack"], digits_samples.x), atol=1e-4)


@pytest.mark.parametrize("name", ["xnnpack", "xnnpack-int8"])
def test_a_row_has_the_same_result_at_every_shape(bench, made, digits_samples, name):
    ones = [{"image": digits_samples.x[row : row + 1]} for row in range(64)]
    alone = np.concatenate([part["logits"] for part in bench.run(made[name], "executorch", ones, **TOLD)])
    np.testing.assert_allclose(alone, predict(bench, made[name], digits_samples.x[:64]), atol=1e-5)


def test_threads_change_nothing_but_the_time(bench, made, digits_samples):
    two = predict(bench, made["xnnpack"], digits_samples.x[:64], threads=2)
    np.testing.assert_allclose(two, predict(bench, made["xnnpack"], digits_samples.x[:64]), atol=1e-5)


def test_what_was_written_is_described(bench, made):
    assert bench.call("describe", made["xnnpack"], "executorch", **TOLD)[0] == SPECS


def test_rows_of_another_number_are_no_shape_of_it(bench, made, digits_samples):
    feeds = [{"image": digits_samples.x[:5]}]
    raised = bench.call("run", made["xnnpack"], "executorch", feeds=feeds, expect_error=True, **TOLD)[0]["raised"]
    assert "compiled for the shapes" in raised


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: (path / "model-batch1.pte").unlink(), "model-batch1.pte is missing"),
        (lambda path: (path / "model-batch1.pte").write_bytes(b"x" * 4096), "model-batch1.pte cannot be opened"),
        (lambda path: (path / "index.json").write_text("{"), "index.json cannot be read"),
        (lambda path: (path / "index.json").write_text(json.dumps({"inputs": []})), "index.json cannot be read"),
    ],
)
def test_files_that_are_not_what_they_should_be_are_not_opened(bench, made, tmp_path, damage, says):
    copy = Path(shutil.copytree(made["xnnpack"], tmp_path / "copy"))
    damage(copy)
    told = {**TOLD, "expect_error": True}
    assert says in bench.call("describe", copy, "executorch", **told)[0]["raised"]


def test_another_device_than_the_cpu_is_refused(bench, made, digits_samples):
    feeds = [{"image": digits_samples.x[:1]}]
    told = {**TOLD, "expect_error": True, "device": "cuda:0"}
    assert (
        "computes on the CPU only" in bench.call("run", made["xnnpack"], "executorch", feeds=feeds, **told)[0]["raised"]
    )


def test_too_few_rows_of_calibration_data(bench, digits_exported, tmp_path):
    np.savez(tmp_path / "one.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    notes, _ = bench.transform(
        "executorch.xnnpack-int8",
        digits_exported,
        described=SPECS,
        shapes=SHAPES,
        calibration=str(tmp_path / "one.npz"),
    )
    assert "too few rows" in notes["refused"]


def test_indices_that_are_computed_stay_whole(bench, tmp_path):
    """XNNPACK's quantizer would make the two a number of floating point, and the indices with it."""
    import torch

    class Every(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.dense(x[:, torch.arange(x.shape[1] // 2) * 2] + 1)

    torch.manual_seed(0)
    network, x = Every().eval(), np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    exported = torch.export.export(network, (torch.zeros(2, 8),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(exported, tmp_path / "model.pt2")
    np.savez(tmp_path / "rows.npz", x=x)
    specs = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 3]}],
    }
    job = {"described": specs, "shapes": SHAPES[:1], "calibration": str(tmp_path / "rows.npz")}
    notes, output = bench.transform("executorch.xnnpack-int8", tmp_path, **job)
    assert notes.get("static_shapes") == ["batch1"], notes
    (row,) = bench.run(output, "executorch", [{"x": x[:1]}], described=specs, static_shapes=SHAPES[:1])
    due = network(torch.from_numpy(x[:1])).detach().numpy()
    np.testing.assert_allclose(row["y"], due, atol=0.05)
