"""Each kind of model of Transformers by each converter, run from the saved files at several batch sizes and lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_transformers import VOCABULARY, write_models

from kedro_hone.adaptors.openvino import adaptor as openvino
from kedro_hone.adaptors.pytorch import adaptor as pytorch
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.transformers import write

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

KINDS = ("roberta", "causal", "seq2seq", "image", "speech")
NIGHTLY = {"causal", "seq2seq", "image", "speech"}
"""Each takes as long as the first; causal ones are in each run in the tests of the learner and of text programs."""

SIZES = ((1, 1), (1, 9), (2, 5), (7, 33), (3, 64))


@pytest.fixture(scope="module")
def bench(make_shared_bench):
    return make_shared_bench(pytorch)


@pytest.fixture(scope="module")
def runtime(make_shared_bench):
    return make_shared_bench(openvino)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.nightly) if kind in NIGHTLY else kind for kind in KINDS],
)
def model(request, bench, tiny, tmp_path_factory):
    """A model as it is sealed, what its worker tells of it, rows of several sizes, and its outputs for them."""
    folder = tmp_path_factory.mktemp(request.param)
    write_models(tiny, request.param)
    flavor = read_flavor(tiny / request.param, trust=frozenset())
    write(flavor, tiny / request.param, folder)
    described, _ = bench.call("describe", folder, "transformers", metadata=flavor.metadata)
    metadata = {"transformers": described["transformers"]}
    feeds = [make_feeds(described["inputs"], batch, length) for batch, length in SIZES]
    wanted = bench.run(folder, "transformers", feeds, described=described, metadata=metadata)
    return folder, described, metadata, feeds, wanted


def make_feeds(inputs, batch: int, length: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(batch)
    sizes = {"batch": batch, "length": length, "decoder_length": 1 + length // 3, "samples": 3000 + 137 * length}
    ends = np.concatenate([[length], draw.integers(1, length + 1, size=batch)])[:batch]
    feeds = {}
    for spec in inputs:
        shape = [sizes.get(dim, dim) for dim in spec["shape"]]
        if spec["dtype"] == "float32":
            feeds[spec["name"]] = draw.normal(size=shape).astype(np.float32)
        elif spec["name"] == "attention_mask":
            feeds[spec["name"]] = (np.arange(length) < ends[:, None]).astype(np.int64)
        else:
            most = 2 if spec["name"] == "token_type_ids" else VOCABULARY
            feeds[spec["name"]] = draw.integers(0 if most == 2 else 5, most, size=shape)
    return feeds


def check(found, wanted) -> None:
    assert len(found) == len(wanted) == len(SIZES)
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for name, array in other.items():
            assert one[name].shape == array.shape
            assert np.abs(one[name] - array).max() <= 1e-4 * np.abs(array).max()


def test_the_exported_program(bench, model):
    folder, described, metadata, feeds, wanted = model
    notes, exported = bench.transform(
        "pytorch.export", folder, form="transformers", described=described, metadata=metadata
    )
    assert "failed" not in notes, notes
    check(bench.run(exported, "pytorch", feeds, described=described), wanted)


def test_traced_onnx(bench, model):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, described, metadata, feeds, wanted = model
    notes, traced = bench.transform("pytorch.onnx-traced", folder, described=described, metadata=metadata)
    assert "failed" not in notes, notes
    session = onnxruntime.InferenceSession(traced / "model.onnx", providers=["CPUExecutionProvider"])
    named = [spec["name"] for spec in described["outputs"]]
    shapes = [[str(size).removesuffix(" + past") for size in each.shape] for each in session.get_inputs()]
    assert shapes == [list(map(str, spec["shape"])) for spec in described["inputs"]]
    check([dict(zip(named, session.run(named, rows), strict=True)) for rows in feeds], wanted)


@pytest.mark.nightly
def test_openvinos_ir(bench, runtime, model):
    folder, described, metadata, feeds, wanted = model
    notes, converted = bench.transform("pytorch.openvino-ir", folder, described=described, metadata=metadata)
    assert "failed" not in notes, notes
    found = runtime.describe(converted, "openvino-ir")
    assert (found["inputs"], found["outputs"]) == (described["inputs"], described["outputs"])
    options = {"INFERENCE_PRECISION_HINT": "f32"}
    check(runtime.run(converted, "openvino-ir", feeds, run_options=options), wanted)
