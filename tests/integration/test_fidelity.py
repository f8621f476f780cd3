"""Fidelity from end to end on small transformers: quantized candidates score by how close they are, and can pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from digits_bench import Bench, measure_gate, track

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

OUTPUTS = {"encoder": ("sentence", ("batch", 32)), "decoder": ("logits", ("batch", "length", 50))}
ROWS = {"calibration": 64, "search": 160, "gate": 240}
LIMIT = 0.05


def make_bench(folder: Path, model: Path, kind: str) -> Bench:
    """Seal a model as the source, and make its predictions on rows of tokens; there are no labels."""
    output, shape = OUTPUTS[kind]
    keys = {
        "model": {"uri": "models:/text/1"},
        "program": {"name": "fidelity"},
        "budget": "thorough",
        "shapes": {"batch8": {"batch": 8}},
        "threads": 1,
        "gates": {"drop": LIMIT, "other_load": 1},
        "adaptors": {"openvino.int8-accuracy-control": {"options": {"max_drop": 0.01}}},
    }
    recipe = read_recipe(keys)
    store = Store(folder / "hone" / "store")
    run = RunFolder(root=folder / "hone" / "runs", run_id="run", project=folder)
    (folder / "source").mkdir()
    (folder / "source" / "model.onnx").write_bytes(model.read_bytes())
    source = store.seal(
        folder / "source",
        format="onnx",
        inputs=tuple(
            TensorSpec(name=name, dtype="int64", shape=("batch", "length")) for name in ("input_ids", "attention_mask")
        ),
        outputs=(TensorSpec(name=output, dtype="float32", shape=shape),),
        runtime="onnxruntime",
    )
    draw = np.random.default_rng(0)
    files = {}
    for name, rows in ROWS.items():
        mask = np.arange(12) < draw.integers(4, 13, size=(rows, 1))
        tokens = {"input_ids": draw.integers(1, 50, size=(rows, 12)) * mask, "attention_mask": mask.astype("i8")}
        files[name] = track(folder / f"{name}.npz", tokens)
    samples = prepare(source=source, recipe=recipe, store=store, run=run, **files)
    context = RunContext(source=source, samples=samples, recipe=recipe, store=store, run=run)
    return Bench(context, take_baseline(context=context))


def build(bench: Bench, *route: str) -> Artifact:
    outcome: object = bench.context.source
    options = make_plan(bench.context.recipe).options
    for adaptor in route:
        outcome = apply_adaptor(
            parent=outcome, reference=bench.reference, adaptor=adaptor, options=options[adaptor], **bench.common
        )
        assert isinstance(outcome, Artifact), outcome
    return outcome


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_quantized_transformers_pass_the_quality_gate(transformers, tmp_path, kind):
    bench = make_bench(tmp_path, transformers / kind / "model.onnx", kind)
    metric = {"encoder": "cosine_similarity", "decoder": "argmax_agreement"}[kind]
    assert (bench.reference.metric, bench.reference.value, bench.reference.kind) == (metric, 1.0, "mean")
    for adaptor in ("openvino.int8-weights", "openvino.int8-ptq", "openvino.int8-accuracy-control"):
        route = ("openvino.ir", adaptor, "openvino.f32")
        artifact = build(bench, *route)
        found = bench.validate(artifact, *route)
        quality = found.quality
        assert quality.metric == metric
        assert quality.candidate > 0.9
        spread = quality.spread
        assert 0 <= spread.best <= spread.p5 <= spread.median <= spread.p95 <= spread.p99 <= spread.worst <= 1
        assert spread.worst > 0, "eight bits are never exact on every row"
        assert quality.drop.low <= quality.drop.estimate <= quality.drop.high
        assert found.status is Status.MEASURED, found.reason
        assert quality.drop.high < LIMIT
    assert measure_gate(bench, artifact, tmp_path, batch=8).drop.high < LIMIT
