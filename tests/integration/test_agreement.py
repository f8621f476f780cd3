"""Winners that would be wrong where nobody looked: each with the real toolchain, and each held by every metric."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from digits_bench import Bench, track
from onnx import helper, numpy_helper

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.measurement import Status
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext

pytestmark = pytest.mark.toolchain

ROWS = {"calibration": 64, "search": 120, "gate": 300}
RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


def open_bench(folder: Path, write, draw, *, inputs, outputs, program="fidelity", **sealed) -> Bench:
    """Seal what ``write`` writes to a folder as the source, and predict rows that ``draw`` makes."""
    keys = {
        "model": {"uri": "models:/it/1"},
        "program": {"name": program},
        "budget": "thorough",
        "shapes": {"batch8": {"batch": 8}},
        "threads": 1,
        "gates": {"drop": 0.05, "other_load": 1},
    }
    recipe, store = read_recipe(keys), Store(folder / "hone" / "store")
    run = RunFolder(root=folder / "hone" / "runs", run_id="run", project=folder)
    (folder / "source").mkdir()
    write(folder / "source")
    specs = {
        side: tuple(TensorSpec(name=n, dtype=t, shape=s) for n, t, s in given)
        for side, given in (("inputs", inputs), ("outputs", outputs))
    }
    source = store.seal(folder / "source", **specs, **sealed)
    files = {name: track(folder / f"{name}.npz", draw(rows)) for name, rows in ROWS.items()}
    samples = prepare(source=source, recipe=recipe, store=store, run=run, **files)
    context = RunContext(source=source, samples=samples, recipe=recipe, store=store, run=run)
    return Bench(context, take_baseline(context=context))


def validate(bench: Bench, *route: str):
    outcome: object = bench.context.source
    options = make_plan(bench.context.recipe).options
    for adaptor in route:
        outcome = apply_adaptor(
            parent=outcome, reference=bench.reference, adaptor=adaptor, options=options[adaptor], **bench.common
        )
        assert isinstance(outcome, Artifact), outcome
    return bench.validate(outcome, *route)


def write_heads(folder: Path) -> None:
    """Write a network whose rows are three numbers of one output: an income in thousands, an age, and a share."""

    def weight(name, *shape, scale=0.4):
        return numpy_helper.from_array(np.float32(RANDOM.normal(size=shape) * scale), name)

    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"]), helper.make_node("Relu", ["h1"], ["h"])]
    weights = [weight("w1", 16, 64), numpy_helper.from_array(np.float32([[5e4, 90.0, 1.0]]), "units")]
    weights.append(weight("w2", 64, 3, scale=0.2))
    nodes += [
        helper.make_node("MatMul", ["h", "w2"], ["raw"]),
        helper.make_node("Sigmoid", ["raw"], ["shares"]),
        helper.make_node("Mul", ["shares", "units"], ["y"]),
    ]
    info = onnx.helper.make_tensor_value_info
    inputs, outputs = [info("x", 1, ["batch", 16])], [info("y", 1, ["batch", 3])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")


def test_a_static_int8_that_has_one_scale_for_unlike_columns_is_dropped(tmp_path):
    bench = open_bench(
        tmp_path,
        write_heads,
        lambda rows: {"x": np.float32(RANDOM.normal(size=(rows, 16)))},
        inputs=[("x", "float32", ("batch", 16))],
        outputs=[("y", "float32", ("batch", 3))],
        format="onnx",
        runtime="onnxruntime",
    )
    exact = validate(bench, "onnxruntime.session")
    assert (exact.status, exact.limits) == (Status.MEASURED, ())
    lossy = validate(bench, "onnxruntime.int8-static", "onnxruntime.session")
    assert lossy.status is Status.DROPPED
    assert lossy.quality.spread.worst > 0.5


class Hashed(torch.nn.Module):
    """Numbers of sessions, such as times in milliseconds, by buckets."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(97, 4)

    def forward(self, session: torch.Tensor) -> torch.Tensor:
        return self.table(torch.remainder(session // 8, 97)).sum(dim=1)


def write_program(module, example, dims):
    def write(folder):
        torch.manual_seed(0)
        program = torch.export.export(module().eval(), example, dynamic_shapes=dims)
        torch.export.save(program, folder / "model.pt2")

    return write


def test_numbers_that_a_runtime_rounds_are_found_beyond_the_splits(tmp_path):
    """The splits hold small ones only; OpenVINO computes with all of them in float32."""
    batch = torch.export.Dim("batch")
    bench = open_bench(
        tmp_path,
        write_program(Hashed, (torch.randint(0, 99, (3, 2)),), ({0: batch},)),
        lambda rows: {"session": RANDOM.integers(0, 50_000, (rows, 2))},
        inputs=[("session", "int64", ("batch", 2))],
        outputs=[("output_0", "float32", ("batch", 4))],
        format="pytorch",
        runtime="pytorch",
    )
    names = [probe.name for probe in bench.reference.probes]
    assert any("16777216 to" in name for name in names)
    right = validate(bench, "pytorch.onnx", "onnxruntime.session")
    assert (right.status, right.limits) == (Status.MEASURED, ()), right.reason
    wrong = validate(bench, "pytorch.onnx", "openvino.ir", "openvino.f32")
    assert wrong.status is Status.DROPPED
    assert "on a probe, session of " in wrong.reason
    assert " of 7 rows: row " in wrong.reason
    assert "openvino computes whole numbers of 64 bits in float32 or int32" in wrong.reason


class Pool(torch.nn.Module):
    """The mean of what a mask leaves, or a learned vector where it leaves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.empty = torch.nn.Linear(5, 6), torch.nn.Parameter(torch.ones(6))

    def forward(self, items: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        count = mask.sum(dim=1, keepdim=True)
        mean = (self.linear(items) * mask[..., None]).sum(dim=1) / count.clamp(min=1)
        return torch.where(count > 0, mean, self.empty)


class Unmasked(Pool):
    """The same, as a converter that takes a mask for a length would make it."""

    def forward(self, items: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return super().forward(items, torch.arange(mask.shape[1]) < mask.sum(dim=1, keepdim=True))


def test_a_mask_that_is_taken_for_a_length_is_found_though_the_splits_are_padded_on_the_right(tmp_path):
    example = (torch.rand(3, 9, 5), torch.rand(3, 9) > 0.4)
    batch = torch.export.Dim("batch")
    write = write_program(Pool, example, ({0: batch}, {0: batch}))

    def draw(rows):
        mask = np.arange(9) < RANDOM.integers(1, 10, (rows, 1))
        return {"items": np.float32(RANDOM.normal(size=(rows, 9, 5))), "mask": mask}

    bench = open_bench(
        tmp_path,
        write,
        draw,
        inputs=[("items", "float32", ("batch", 9, 5)), ("mask", "bool", ("batch", 9))],
        outputs=[("output_0", "float32", ("batch", 6))],
        format="pytorch",
        runtime="pytorch",
    )
    (tmp_path / "other").mkdir()
    write_program(Unmasked, example, ({0: batch}, {0: batch}))(tmp_path / "other")
    planted = bench.context.store.seal(
        tmp_path / "other", **{**bench.context.source.manifest(), "metadata": {"planted": True}}
    )
    found = bench.validate(planted, "pytorch.export")
    assert found.status is Status.DROPPED
    assert "on a probe, mask with left padding: output_0 differ" in found.reason
    right = validate(bench, "pytorch.onnx", "onnxruntime.session")
    assert (right.status, right.limits) == (Status.MEASURED, ()), right.reason


class Probable(torch.nn.Module):
    """Two outputs, of which a program of classes reads the first."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.linear(x)
        return logits.argmax(dim=1), logits.softmax(dim=1)


class Sharp(Probable):
    """The same classes, with other probabilities."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.linear(x)
        return logits.argmax(dim=1), (6 * logits).softmax(dim=1)


@pytest.mark.parametrize("route", [("pytorch.export",), ("pytorch.pt2e-int8",)])
def test_probabilities_that_no_metric_reads_are_judged(tmp_path, route):
    example, batch = (torch.rand(3, 4),), torch.export.Dim("batch")
    bench = open_bench(
        tmp_path,
        write_program(Probable, example, ({0: batch},)),
        lambda rows: {"x": np.float32(RANDOM.normal(size=(rows, 4))), "target": RANDOM.integers(0, 3, rows)},
        inputs=[("x", "float32", ("batch", 4))],
        outputs=[("label", "int64", ("batch",)), ("probabilities", "float32", ("batch", 3))],
        program="tabular-classification",
        format="pytorch",
        runtime="pytorch",
    )
    (tmp_path / "other").mkdir()
    write_program(Sharp, example, ({0: batch},))(tmp_path / "other")
    planted = bench.context.store.seal(
        tmp_path / "other", **{**bench.context.source.manifest(), "metadata": {"planted": True}}
    )
    found = bench.validate(planted, *route)
    assert found.quality.outputs == ("label",)
    assert found.quality.drop.estimate == 0
    assert found.status is Status.DROPPED
    assert "probabilities differ from the source's" in found.reason
    assert ("only converts" in found.reason) == (route == ("pytorch.export",))
