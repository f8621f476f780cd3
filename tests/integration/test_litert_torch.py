"""LiteRT from PyTorch, with the real toolchains: converted, quantized and judged; all of it in large environments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from digits_bench import Bench, make_bench, read_splits
from torch import nn

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Refused
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SHAPES = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}


class Reader(nn.Module):
    """A small BERT that reads the rows of an image as its words; dark rows are padding, which its mask hides."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=8,
            vocab_size=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
        self.words, self.bert, self.head = nn.Linear(8, 32), BertModel(config), nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        rows = image.squeeze(1)
        mask = (rows.sum(-1) > 1.5).to(torch.int64)
        return self.head(self.bert(inputs_embeds=self.words(rows), attention_mask=mask).last_hidden_state.mean(1))


def build(bench: Bench, *route: str) -> Artifact:
    """Run a route's adaptors on the source of a bench, one after another."""
    artifact = bench.context.source
    for name in route:
        adaptor = read_catalogue().find_adaptor(name)
        outcome = transform(adaptor, adaptor.options(), artifact, bench.context, reference=bench.reference)
        assert isinstance(outcome, Artifact), outcome.reason
        artifact = outcome
    return artifact


@pytest.fixture(autouse=True)
def home(environments, monkeypatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(environments.root))


@pytest.fixture(scope="module")
def reader(digits_models, tmp_path_factory) -> Path:
    """The small BERT, trained for some seconds on the digits that the bench does not have, and exported."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rest = np.random.default_rng(0).permutation(len(images))[768:]  # as in digits_models.py
    x, y = torch.from_numpy((images[rest] / 16).astype(np.float32).reshape(-1, 1, 8, 8)), torch.from_numpy(labels[rest])
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    path = tmp_path_factory.mktemp("reader") / "model.pt2"
    batch = torch.export.Dim("batch", max=1024)
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval(), (x[:3],), dynamic_shapes={"image": {0: batch}}), path)
    return path


@pytest.mark.parametrize("step", [None, "litert.int8-dynamic", "litert.int8-weights", "litert.int8-static"])
def test_a_convolutional_net_keeps_its_accuracy(digits_models, tmp_path, step):
    program = digits_models / "exported" / "model.pt2"
    bench = make_bench(tmp_path, program, read_splits(digits_models), form="pytorch", runtime="pytorch", shapes=SHAPES)
    artifact = build(bench, "litert_torch.tflite", *([step] if step else []), "litert.xnnpack")
    assert [shape.name for shape in artifact.static_shapes] == ["batch1", "batch64"]
    validation = bench.validate(artifact)
    assert validation.status is Status.MEASURED, validation.reason
    if step is None:
        assert validation.largest_error < 1e-4


def test_a_transformer_whose_mask_ruins_the_static_ranges(digits_models, reader, tmp_path):
    """AI Edge Quantizer 0.10 takes the -3.4e38 of a mask for an activation; fp32 and dynamic int8 are right."""
    bench = make_bench(tmp_path, reader, read_splits(digits_models), form="pytorch", runtime="pytorch", shapes=SHAPES)
    good = bench.validate(build(bench, "litert_torch.tflite", "litert.int8-dynamic", "litert.xnnpack"))
    assert good.status is Status.MEASURED, good.reason

    wrong = bench.validate(build(bench, "litert_torch.tflite", "litert.int8-static", "litert.xnnpack"))

    assert (wrong.status, wrong.slug) == (Status.DROPPED, "quality"), wrong
    assert "accuracy on the search split fell from 0.9" in wrong.reason


def test_a_program_that_is_quantized_already_is_refused(digits_models, tmp_path):
    program = digits_models / "exported" / "model.pt2"
    bench = make_bench(tmp_path, program, read_splits(digits_models), form="pytorch", runtime="pytorch", shapes=SHAPES)
    adaptor = read_catalogue().find_adaptor("litert_torch.tflite")
    quantized = bench.context.source.model_copy(update={"metadata": {"quantization": "pt2e-x86-int8"}})
    refused = transform(adaptor, adaptor.options(), quantized, bench.context, reference=bench.reference)
    assert isinstance(refused, Refused)
    assert "pt2e-x86-int8" in refused.reason
