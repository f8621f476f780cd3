"""Programs for text on small transformers, from columns of text to the gates: real workers, tokens and toolchains."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from digits_bench import Bench
from text_models import WORDS, save_tokenizer

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.digest import digest_file
from hone_runtime.values.measurement import Quality, Status
from hone_runtime.values.samples import GATE, Predicted, TrackedFile
from kedro_hone.core.gates import Measurements
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.search.gates import drop, drops
from kedro_hone.search.scores import predict, score_predictions

pytestmark = pytest.mark.toolchain

LENGTH = 12
ROWS = {"calibration": 32, "search": 200, "gate": 400}
CASES = {
    "encoder": ("sentence-embedding", "sentence", ("batch", 32), "neighbour_agreement"),
    "decoder": ("causal-language-modeling", "logits", ("batch", "length", 50), "next_token_accuracy"),
}


def make_bench(folder: Path, model: Path, kind: str, limit: float = 0.3) -> Bench:
    """Seal a model as the source, and make its predictions on text, by a tokenizer in a folder of its own."""
    program, output, shape, other = CASES[kind]
    (folder / "tokenizer").mkdir()
    words = [*WORDS, *(f"w{number}" for number in range(50 - len(WORDS)))]
    save_tokenizer(folder / "tokenizer", words)
    keys = {
        "model": {"uri": "models:/text/1"},
        "program": {"name": program, "options": {"tokenizer": str(folder / "tokenizer"), "length": LENGTH}},
        "budget": "thorough",
        "shapes": {"short": {"batch": 1, "length": 8}, "long": {"batch": 8, "length": LENGTH}},
        "threads": 1,
        "gates": {"drop": {"encoder": 0.1, "decoder": 5.0}[kind], "drops": {other: limit}},
        "adaptors": {"openvino.int8-accuracy-control": {"options": {"max_drop": 0.05}}},
    }
    recipe = read_recipe(keys)
    store = Store(folder / "hone" / "store")
    run = RunFolder(root=folder / "hone" / "runs", run_id="run", project=folder)
    (folder / "source").mkdir()
    (folder / "source" / "model.onnx").write_bytes(model.read_bytes())
    names = ("input_ids", "attention_mask")
    source = store.seal(
        folder / "source",
        format="onnx",
        inputs=tuple(TensorSpec(name=name, dtype="int64", shape=("batch", "length")) for name in names),
        outputs=(TensorSpec(name=output, dtype="float32", shape=shape),),
        runtime="onnxruntime",
    )
    draw, files = np.random.default_rng(0), {}
    for name, rows in ROWS.items():
        path = folder / f"{name}.jsonl"
        texts = (" ".join(draw.choice(words[5:], size=draw.integers(3, LENGTH - 2))) for _ in range(rows))
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        md5 = digest_file(path).removeprefix("sha256:")
        files[name] = TrackedFile(
            path=str(path), source=path.name, repo=".", rev="HEAD", resolved_rev="0" * 40, md5=md5
        )
    samples = prepare(source=source, recipe=recipe, store=store, run=run, **files)
    context = RunContext(source=source, samples=samples, recipe=recipe, store=store, run=run)
    return Bench(context, take_baseline(context=context))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_text_goes_from_columns_to_the_gates(transformers, tmp_path, kind):
    """Two metrics are compared, also by NNCF's accuracy control, which calls the program in OpenVINO's environment."""
    bench = make_bench(tmp_path, transformers / kind / "model.onnx", kind)
    *_, other = CASES[kind]
    assert bench.reference.kind == {"encoder": "mean", "decoder": "bootstrap"}[kind]
    options = make_plan(bench.context.recipe).options
    artifact = bench.context.source
    route = ("openvino.ir", "openvino.int8-accuracy-control", "openvino.f32")
    for adaptor in route:
        given = {"parent": artifact, "reference": bench.reference, "adaptor": adaptor, "options": options[adaptor]}
        artifact = apply_adaptor(**given, **bench.common)
        assert isinstance(artifact, Artifact), artifact
    found = bench.validate(artifact, *route)
    assert found.status is Status.MEASURED, found.reason
    assert [one.metric for one in found.quality.others] == [other]

    context, split, paths = bench.context, bench.context.samples.splits[GATE], []
    for name, model in (("source", context.source), ("candidate", artifact)):
        (tmp_path / name).mkdir(exist_ok=True)
        paths.append(tmp_path / name / "outputs.npz")
        predicted = predict(model, name=name, runs=[(context.locate(split.feeds), paths[-1], 8)], context=context)
        assert isinstance(predicted, Predicted), predicted
    quality = score_predictions({"it": paths[1]}, reference=paths[0], split=split, context=context)["it"]
    assert isinstance(quality, Quality), quality
    candidate = Measurements(id="it", quality=quality)
    limits = context.recipe.gates
    rows = [
        *drop.GATE.evaluate(limits.drop, candidate, candidate),
        *drops.GATE.evaluate(limits.drops, candidate, candidate),
    ]
    assert [(row.name, row.unit, row.judgement) for row in rows] == [
        ("drop", bench.reference.metric, "holds"),
        ("drops", other, "holds"),
    ], [row.reason for row in rows]
    assert quality.others[0].n == ROWS["gate"]
    assert quality.drop.estimate != 0, "eight bits are never exact on every row"


def test_a_gate_split_that_is_too_small_for_another_metric_is_refused_before_anything_is_built(transformers, tmp_path):
    with pytest.raises(HoneError) as caught:
        make_bench(tmp_path, transformers / "encoder" / "model.onnx", "encoder", limit=0.001)
    assert caught.value.slug == "gate-unprovable"
    assert "400 gate rows cannot prove a drop under 0.001 of neighbour_agreement" in caught.value.what
