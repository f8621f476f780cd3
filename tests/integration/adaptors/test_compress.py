"""Compressors on trained networks: smaller, as good, and refused by name where nothing can be done."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from digits_bench import Bench, make_bench, read_splits, read_training

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status, Validation
from hone_runtime.values.outcome import Outcome, Refused
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

SHAPES = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}
QUICK = {"epochs": 12, "patience": 12}


@pytest.fixture(autouse=True)
def home(environments, monkeypatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(environments.root))


@pytest.fixture
def open_bench(digits_models, compressed_nets, tmp_path):
    def open_one(kind: str = "digits", training: dict[str, np.ndarray] | None = None, **recipe: object) -> Bench:
        folder = digits_models / "exported" if kind == "digits" else compressed_nets / kind
        splits = {**read_splits(digits_models), "training": training or read_training()}
        given = {"form": "pytorch", "runtime": "pytorch", "shapes": SHAPES}
        return make_bench(tmp_path, folder / "model.pt2", splits, **given, **recipe)

    return open_one


def run(bench: Bench, artifact: Artifact, name: str, **options: object) -> Outcome:
    adaptor = read_catalogue().find_adaptor(name)
    wanted = adaptor.options.model_validate(options)
    return transform(adaptor, wanted, artifact, bench.context, reference=bench.reference)


def build(bench: Bench, artifact: Artifact, *route: str) -> Artifact:
    for name in route:
        outcome = run(bench, artifact, name)
        assert isinstance(outcome, Artifact), outcome
        artifact = outcome
    return artifact


def judge(bench: Bench, artifact: Artifact, *route: str) -> Validation:
    """Validate what some more adaptors make of an artifact."""
    runnable = build(bench, artifact, *route)
    return bench.validate(runnable, *(step.adaptor for step in runnable.steps))


def compress(bench: Bench, name: str, **options: object) -> Artifact:
    outcome = run(bench, bench.context.source, name, **{**QUICK, **options})
    assert isinstance(outcome, Artifact), outcome
    return outcome


@pytest.mark.parametrize(
    ("kind", "adaptor", "options", "share"),
    [
        ("digits", "compress.prune-channels", {"ratio": 0.5}, 0.3),
        pytest.param("digits", "compress.low-rank", {"rank": 0.25}, 0.5, marks=pytest.mark.nightly),
        pytest.param(
            "attention", "compress.prune-channels", {"ratio": 0.5, "epochs": 30}, 0.35, marks=pytest.mark.nightly
        ),
        ("attention", "compress.drop-layers", {"share": 0.5}, 0.7),
        pytest.param(
            "residual", "compress.prune-channels", {"ratio": 0.5, "epochs": 30}, 0.35, marks=pytest.mark.nightly
        ),
        pytest.param("residual", "compress.drop-layers", {"share": 0.5}, 0.6, marks=pytest.mark.nightly),
    ],
)
def test_a_smaller_network_holds_the_metric(open_bench, kind, adaptor, options, share):
    bench = open_bench(kind)
    smaller = compress(bench, adaptor, **options)
    before, after = smaller.metadata["trained"][adaptor]["parameters"]
    assert after < share * before

    validation = judge(bench, smaller, "pytorch.onnx", "onnxruntime.session")
    assert validation.status is Status.MEASURED, validation.reason
    assert validation.quality.candidate > validation.quality.source - 0.03


def test_a_pruned_network_is_quantized_in_turn(open_bench):
    bench = open_bench()
    smaller = compress(bench, "compress.prune-channels", ratio=0.5)
    validation = judge(bench, smaller, "pytorch.onnx", "onnxruntime.int8-static", "onnxruntime.session")
    assert validation.status is Status.MEASURED, validation.reason
    assert validation.quality.candidate > validation.quality.source - 0.03


@pytest.mark.nightly
def test_activations_that_int8_cannot_fuse_are_replaced(open_bench):
    bench = open_bench("residual")
    replaced = compress(bench, "compress.replace-layers", by="relu")
    assert "aten.silu" not in replaced.metadata["operators"]
    validation = judge(bench, replaced, "pytorch.onnx", "onnxruntime.session")
    assert validation.quality.candidate > validation.quality.source - 0.03


@pytest.mark.parametrize(
    ("pattern", "sparsity"),
    [pytest.param("unstructured", 0.8, marks=pytest.mark.nightly), ("block4", 0.8), ("2:4", 0.5)],
)
def test_weights_are_zero_in_the_pattern(open_bench, pattern, sparsity):
    import torch

    bench = open_bench()
    sparse = compress(bench, "compress.sparsify", pattern=pattern, sparsity=sparsity)
    assert sparse.metadata["trained"]["compress.sparsify"]["sparsity"] == pytest.approx(sparsity, abs=0.02)
    program = torch.export.load(bench.context.store.locate(sparse) / "model.pt2")
    weights = [one for one in program.state_dict.values() if one.dim() > 1 and one.shape[1] % 4 == 0]
    groups = torch.cat([(one == 0).movedim(1, -1).reshape(-1, 4).sum(1) for one in weights])
    if pattern == "2:4":
        assert (groups >= 2).all()
    if pattern == "block4":
        assert ((groups == 0) | (groups == 4)).float().mean() > 0.999


def test_a_student_of_a_person_learns_the_source(open_bench, tmp_path):
    file = tmp_path / "students.py"
    file.write_text(
        "from torch import nn\n\n\nclass Small(nn.Sequential):\n    def __init__(self, width=8):\n"
        "        super().__init__(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),\n"
        "                         nn.Linear(width * 16, 10))\n"
    )
    bench = open_bench(trust=["module"])
    student = compress(bench, "compress.distil", student=f"{file}:Small", kwargs={"width": 16}, epochs=40)
    validation = judge(bench, student, "pytorch.onnx", "onnxruntime.session")
    assert validation.quality.candidate > validation.quality.source - 0.05

    file.write_text(file.read_text().replace("nn.Linear(width * 16, 10)", "nn.Linear(width * 16, 7)"))
    refused = run(bench, bench.context.source, "compress.distil", student=f"{file}:Small", kwargs={"width": 16})
    assert isinstance(refused, Refused), refused
    assert "float32 [3, 7], and the source's float32 ['batch', 10]" in refused.reason


def test_a_student_that_ignores_its_input_is_dropped(open_bench, tmp_path):
    file = tmp_path / "students.py"
    file.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Ignoring(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.linear = nn.Linear(64, 10)\n\n    def forward(self, image):\n"
        "        return self.linear(torch.zeros_like(image.flatten(1)))\n"
    )
    bench = open_bench(trust=["module"])
    student = compress(bench, "compress.distil", student=f"{file}:Ignoring", epochs=2)
    validation = judge(bench, student, "pytorch.onnx", "onnxruntime.session")
    assert validation.status is Status.DROPPED
    assert "accuracy" in validation.reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("from torch import nn\n\n\nclass Other(nn.Module):\n    pass\n", "cannot be built: AttributeError"),
        ("class Small:\n    pass\n", "is a Small, and no module"),
        ("import neighbour\n", "cannot be built: ModuleNotFoundError"),
    ],
)
def test_a_student_that_cannot_be_built_is_refused(open_bench, tmp_path, code, reason):
    (tmp_path / "students.py").write_text(code)
    bench = open_bench(trust=["module"])
    refused = run(bench, bench.context.source, "compress.distil", student=f"{tmp_path / 'students.py'}:Small")
    assert isinstance(refused, Refused), refused
    assert reason in refused.reason


def test_whole_heads_are_removed(open_bench):
    import torch

    bench = open_bench("attention")
    smaller = compress(bench, "compress.prune-channels", ratio=0.5, epochs=3)
    program = torch.export.load(bench.context.store.locate(smaller) / "model.pt2")
    scaled = [node for node in program.graph.nodes if "scaled_dot_product_attention" in str(node.target)]
    assert scaled
    for node in scaled:
        assert [one.meta["val"].shape[-1] for one in node.args[:3]] == [16, 16, 16]
        assert [one.meta["val"].shape[1] for one in node.args[:3]] == [2, 2, 2]


def test_a_student_is_code_and_needs_trust(open_bench, tmp_path):
    (tmp_path / "students.py").write_text("raise SystemExit\n")
    bench = open_bench()
    refused = run(bench, bench.context.source, "compress.distil", student=f"{tmp_path / 'students.py'}:Small")
    assert isinstance(refused, Refused), refused
    assert "trust: [module]" in refused.reason


@pytest.mark.nightly
def test_training_with_rounding_mends_what_int8_breaks(open_bench):
    bench = open_bench("outliers")
    plain = build(bench, bench.context.source, "pytorch.pt2e-int8")
    assert judge(bench, plain, "pytorch.onnx", "onnxruntime.session").status is Status.DROPPED
    quantized = compress(bench, "compress.qat", epochs=8)
    assert any("quantized_decomposed" in name for name in quantized.metadata["operators"])
    before, after = (judge(bench, one, "pytorch.onnx", "onnxruntime.session") for one in (plain, quantized))
    assert after.quality.candidate > before.quality.candidate + 0.05
    assert after.quality.candidate > after.quality.source - 0.02


def test_nothing_trains_twice(open_bench):
    bench = open_bench()
    options = {"ratio": 0.5, "epochs": 10_000, "patience": 10_000, "seconds": 2}
    first = compress(bench, "compress.prune-channels", **options)
    notes = first.metadata["trained"]["compress.prune-channels"]
    assert notes["epochs"] > 0
    assert notes["unfinished"]
    assert compress(bench, "compress.prune-channels", **options).digest == first.digest

    later = RunFolder(root=bench.context.run.root, run_id="later", project=bench.context.run.project)
    bench = Bench(replace(bench.context, run=later), bench.reference)
    second = compress(bench, "compress.prune-channels", **options)
    further = second.metadata["trained"]["compress.prune-channels"]
    assert further["epochs"] > notes["epochs"]
    assert further["log"][: notes["epochs"]] == notes["log"]


@pytest.mark.parametrize(
    ("kind", "adaptor", "options", "reason"),
    [
        ("fixed", "compress.prune-channels", {}, "in steps of 8"),
        ("layerless", "compress.prune-channels", {}, "no layer"),
        ("layerless", "compress.low-rank", {}, "no layer becomes cheaper"),
        ("layerless", "compress.drop-layers", {}, "no block"),
        ("digits", "compress.replace-layers", {}, "no SiLU or GELU"),
    ],
)
def test_what_cannot_be_compressed_is_refused_by_name(open_bench, kind, adaptor, options, reason):
    bench = open_bench(kind)
    refused = run(bench, bench.context.source, adaptor, **{**QUICK, **options})
    assert isinstance(refused, Refused), refused
    assert reason in refused.reason


def test_rows_with_one_answer_teach_nothing(open_bench):
    training = read_training()
    training["image"] = np.repeat(training["image"][:1], len(training["image"]), axis=0)
    bench = open_bench(training=training)
    refused = run(bench, bench.context.source, "compress.prune-channels")
    assert isinstance(refused, Refused), refused
    assert "the same for all" in refused.reason


@pytest.mark.nightly
def test_a_source_in_onnx_teaches_a_student(digits_models, tmp_path):
    (tmp_path / "bench").mkdir()
    file = tmp_path / "students.py"
    shutil.copy(Path(__file__).with_name("digits_net.py"), file)
    splits = {**read_splits(digits_models), "training": read_training()}
    given = {"form": "onnx", "runtime": "onnxruntime", "shapes": SHAPES, "trust": ["module"]}
    bench = make_bench(tmp_path / "bench", digits_models / "onnx" / "model.onnx", splits, **given)
    student = run(bench, bench.context.source, "compress.distil", student=f"{file}:DigitsNet", epochs=12)
    assert isinstance(student, Artifact), student
    validation = judge(bench, student, "pytorch.onnx", "onnxruntime.session")
    assert validation.quality.candidate > validation.quality.source - 0.05
