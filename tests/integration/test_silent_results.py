"""Silent wrong results, each with the real toolchain: it builds and runs without any error, and ``validate`` stops it.

They were met with today's versions and can come back with any.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import pytest
from digits_bench import ROWS, Bench, make_bench, read_splits
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.contract.toolchain import Limits, Toolchain
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.measurement import Status, Validation, Validations
from hone_runtime.values.outcome import Candidate, FailureClass
from kedro_hone.nodes.race import race
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.nightly]

TOOLCHAIN = Toolchain(
    name="silent",
    folder=Path(__file__).with_name("silent_results"),
    runs=frozenset({"silent-package", "silent-program", "silent-ir"}),
    formats=MappingProxyType(
        {"silent-package": ("model.pt2",), "silent-program": ("model.pt2",), "silent-ir": ("model.xml", "model.bin")}
    ),
    limits=Limits(seconds=1800),
)


def make(name: str, accepts: str, produces: str) -> Adaptor:
    return Adaptor(
        name=f"silent.{name}",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({accepts}),
        produces=produces,
        summary="Goes wrong without a word.",
        needs=frozenset({Need.CALIBRATION_DATA}),
    )


FROZEN_DYNAMIC = make("frozen-dynamic", "pytorch", "silent-package")
STATIC = make("static", "pytorch", "silent-package")
UNCALIBRATED = make("uncalibrated", "pytorch", "silent-program")
INT4 = make("int4", "onnx", "silent-ir")


def build(adaptor: Adaptor, bench: Bench) -> Artifact:
    outcome = transform(adaptor, adaptor.options(), bench.context.source, bench.context, reference=bench.reference)
    assert isinstance(outcome, Artifact), outcome
    return outcome


def race_unvalidated(artifact: Artifact, bench: Bench) -> Status:
    """Race an artifact as if ``validate`` were switched off: everything is believed."""
    believed = Validation(candidate=Candidate(id="wrong", route=("silent",), outcome=artifact), status=Status.MEASURED)
    result = race(**bench.common, validations=Validations(validations=(believed,)))
    assert [standing.id for standing in result.standings] == ["wrong"]
    return result.standings[0].status


@pytest.fixture(autouse=True)
def silent(tmp_path, monkeypatch):
    """Make the toolchain known, and keep locks and environments out of the user's home."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    register(TOOLCHAIN, FROZEN_DYNAMIC, STATIC, UNCALIBRATED, INT4)
    yield
    forget_registrations()


def make_conv_bench(digits: Path, folder: Path, **shapes: int) -> Bench:
    """The small convolutional net as an exported program."""
    program = digits / "exported" / "model.pt2"
    return make_bench(folder, program, read_splits(digits), form="pytorch", runtime="pytorch", **race_over(**shapes))


def race_over(**shapes: int) -> dict[str, object]:
    sizes = {name: {"batch": size} for name, size in shapes.items()}
    return {"shapes": sizes, "race": {"rounds": 5, "block": 5, "burst_ms": 2.0}}


@pytest.mark.parametrize("adaptor", [FROZEN_DYNAMIC, UNCALIBRATED], ids=lambda adaptor: adaptor.name)
def test_a_quantized_conv_net_that_guesses(adaptor, digits_models, tmp_path):
    """PT2E and AOTInductor with freezing (torch 2.13): correct without freezing, or with a static batch.

    And neural-compressor 3.10's "dynamic" quantization, which takes the weights' scales from data and saw none.
    """
    bench = make_conv_bench(digits_models, tmp_path, batch1=1, batch64=64)
    artifact = build(adaptor, bench)
    assert race_unvalidated(artifact, bench) is Status.MEASURED

    validation = bench.validate(artifact)

    assert (validation.status, validation.slug) == (Status.DROPPED, "quality")
    assert "accuracy on the search split fell from 0.9" in validation.reason
    assert "the recipe allows 0.02" in validation.reason
    assert validation.quality.candidate < 0.3


def test_a_static_package_that_is_fed_another_number_of_rows(digits_models, tmp_path):
    """AOTInductor's packages check nothing unless AOTI_RUNTIME_CHECK_INPUTS is set, which our own adaptor does."""
    bench = make_conv_bench(digits_models, tmp_path, batch8=8, batch64=64)
    artifact = build(STATIC, bench)
    assert race_unvalidated(artifact, bench) is Status.MEASURED

    validation = bench.validate(artifact)

    assert (validation.status, validation.slug) == (Status.FAILED, FailureClass.BAD_OUTPUT)
    assert validation.reason == ("output 'logits' at batch64: its shape is (32, 10), the source's is (200, 10)")


def test_four_bits_for_weights_of_very_different_sizes(tmp_path):
    """NNCF's int4 with estimated scales. It took a transformer to relative errors of 1.8 and more.

    A small net survives it, so this one's hidden units are scaled up and down, each undone by the next layer: the same
    function, as nets have it whose normalization was folded (M. Nagel et al., "Data-Free Quantization Through Weight
    Equalization and Bias Correction", ICCV 2019).
    """
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    ends = np.cumsum(list(ROWS.values()))
    parts = dict(zip(ROWS, np.split(order[: ends[-1]], ends[:-1]), strict=True))
    net = MLPClassifier((256, 256), max_iter=30, tol=0.0, n_iter_no_change=30, random_state=0)
    with pytest.warns(Warning, match="iterations"):
        net.fit(images[order[ends[-1] :]], labels[order[ends[-1] :]])
    write_unequal(net, tmp_path / "model.onnx")
    splits = {name: {"image": images[rows], "label": labels[rows]} for name, rows in parts.items()}
    recipe = race_over(batch1=1, batch64=64)
    bench = make_bench(tmp_path, tmp_path / "model.onnx", splits, form="onnx", runtime="onnxruntime", **recipe)
    artifact = build(INT4, bench)
    assert race_unvalidated(artifact, bench) is Status.MEASURED

    validation = bench.validate(artifact)

    assert (validation.status, validation.slug) == (Status.DROPPED, "quality")
    assert "accuracy on the search split fell from 0.9" in validation.reason
    assert validation.largest_error > 0.5
    assert validation.quality.candidate < 0.5


def write_unequal(net: MLPClassifier, path: Path) -> None:
    """Write a net of ReLUs with each hidden unit scaled by a random factor, and its weights to the next layer back."""
    draw = np.random.default_rng(1)
    scales = [np.ones(64), *(np.exp(2 * draw.normal(size=256)) for _ in range(2)), np.ones(10)]
    nodes, weights, value = [], [], "image"
    for layer, (matrix, bias) in enumerate(zip(net.coefs_, net.intercepts_, strict=True)):
        scaled = matrix / scales[layer][:, None] * scales[layer + 1]
        for name, array in ((f"w{layer}", scaled), (f"b{layer}", bias * scales[layer + 1])):
            weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        last = layer == len(net.coefs_) - 1
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"p{layer}"]))
        nodes.append(helper.make_node("Add", [f"p{layer}", f"b{layer}"], ["logits" if last else f"s{layer}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"s{layer}"], [f"h{layer}"]))
        value = f"h{layer}"
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 64])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "net", [image], [logits], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
