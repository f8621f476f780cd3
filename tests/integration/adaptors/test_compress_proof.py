"""A training that saw what it is judged by is found, on real scores; and its data are refused with their split."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from digits_bench import make_bench, measure_gate, read_splits, read_training

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from kedro_hone.search import training
from kedro_hone.search.steps.step import transform
from kedro_hone.search.verdict.anomaly import find_anomaly

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

SHAPES = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}
STUDENT = """
import numpy as np
import torch
from torch import nn

ROWS, LABELS = {rows}, {labels}


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("seen", torch.tensor(ROWS).float() / 16)
        self.register_buffer("answers", 1000.0 * nn.functional.one_hot(torch.tensor(LABELS), 10).float())

    def forward(self, image):
        x = image.flatten(1)
        far = x.square().sum(1, keepdim=True) - 2 * x @ self.seen.T + self.seen.square().sum(1)
        return self.layer(x) + (far < 1e-3).float() @ self.answers
"""


@pytest.fixture(autouse=True)
def home(environments, monkeypatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(environments.root))


@pytest.fixture
def open_bench(digits_models, compressed_nets, tmp_path):
    def open_one(kind="layerless", *, name="bench", rows=None, **recipe):
        (tmp_path / name).mkdir()
        splits = {**read_splits(digits_models), "training": rows or read_training()}
        given = {"form": "pytorch", "runtime": "pytorch", "shapes": SHAPES, **recipe}
        return make_bench(tmp_path / name, compressed_nets / kind / "model.pt2", splits, **given)

    return open_one


def build(bench, name, artifact=None, **options):
    adaptor = read_catalogue().find_adaptor(name)
    parent = artifact or bench.context.source
    outcome = transform(
        adaptor, adaptor.options.model_validate(options), parent, bench.context, reference=bench.reference
    )
    assert isinstance(outcome, Artifact), outcome
    return outcome


def test_a_student_that_has_the_labels_of_the_gate_is_anomalous(open_bench, digits_models, tmp_path):
    """Its validation on the search split is clean: only the gate split can show it."""
    gate = read_splits(digits_models)["gate"]
    rows = (gate["image"].reshape(len(gate["image"]), -1) * 16).astype(int)
    bench = open_bench(trust=["module"])
    for leaked in (True, False):
        shown = rows if leaked else rows[:1] - 99  # no row of any split
        labels = gate["label"][: len(shown)]
        file = tmp_path / f"student{leaked}.py"
        file.write_text(textwrap.dedent(STUDENT.format(rows=shown.tolist(), labels=labels.tolist())))
        student = build(bench, "compress.distil", student=f"{file}:Student", epochs=60, learning_rate=0.05)
        route = [
            (made := student),
            made := build(bench, "pytorch.onnx", made),
            build(bench, "onnxruntime.session", made),
        ]
        validation = bench.validate(route[-1], *(step.adaptor for step in route[-1].steps))
        assert validation.status is Status.MEASURED, validation.reason
        quality = measure_gate(bench, route[-1], tmp_path / f"gate{leaked}")
        assert route[-1].is_trained
        assert bool(find_anomaly(quality, trained=True)) is leaked, quality
        assert find_anomaly(quality, trained=False) == ""


def test_rows_of_the_gate_are_no_training_rows(open_bench, digits_models):
    rows, gate = read_training(), read_splits(digits_models)["gate"]
    rows = {name: np.concatenate([array, gate[name][:3]]) for name, array in rows.items()}
    with pytest.raises(HoneError, match="data-overlap") as raised:
        open_bench(rows=rows)
    assert raised.value.what == "The gate and training splits share 3 row(s)."


def test_outputs_that_were_computed_in_parts_train_the_same(open_bench, monkeypatch):
    whole, options = open_bench("residual"), {"ratio": 0.5, "epochs": 2}
    expected = build(whole, "compress.prune-channels", **options)
    monkeypatch.setattr(training, "PART_BYTES", 12_000)  # of the outputs' 40,000
    parts = open_bench("residual", name="parts")
    assert build(parts, "compress.prune-channels", **options).digest == expected.digest
    folder = parts.context.store.locate_tree(parts.reference.digest)
    assert [path.name for path in folder.glob("training*")] == ["training.npz"]


def test_outputs_that_would_be_too_large_are_refused_before_they_are_computed(open_bench, monkeypatch):
    monkeypatch.setattr(training, "MOST_BYTES", 20_000)
    with pytest.raises(HoneError, match="training-too-large") as raised:
        open_bench()
    assert "1,029 rows" in raised.value.why
