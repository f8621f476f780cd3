"""Chains of two compressors, named in the recipe: both really run, and both are found in what comes out."""

from __future__ import annotations

import platform
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from digits_bench import Bench, make_bench, read_splits
from onnx import numpy_helper

from hone_runtime.contract import hardware as host
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from kedro_hone.core.store.artifacts import Store
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.recipe.plan import make_plan
from kedro_hone.search.steps.step import transform

pytestmark = pytest.mark.toolchain

WEIGHTS_THEN_CONVS = ("onnxruntime.int4-weights", "openvino.ir", "openvino.int8-ptq")
"""Four bits for the weights of the linear layers, then eight for the convolutions, in another toolchain."""

CONVS_THEN_WEIGHTS = ("onnxruntime.int8-static", "onnxruntime.int4-weights")
"""Eight bits for the convolutions alone, then four for the weights of the linear layers."""


def run_chain(
    digits: Path, folder: Path, chain: tuple[str, ...], compiler: str, **adaptors: object
) -> tuple[Bench, list[Artifact]]:
    """Run every step of the one route that the recipe's chain and a compiler make; return what each step left."""
    recipe = {"routes": [chain], "shapes": {"batch1": {"batch": 1}, "batch64": {"batch": 64}}, "adaptors": adaptors}
    model = digits / "onnx" / "model.onnx"
    bench = make_bench(folder, model, read_splits(digits), form="onnx", runtime="onnxruntime", **recipe)
    outcomes = {"onnx": bench.context.source}
    route = (*chain, compiler)
    plan = make_plan(bench.context.recipe)
    for step in plan.routes.steps:
        if step.namespace.startswith("onnx.") and step.route == route[: len(step.route)]:
            outcome = apply_adaptor(
                parent=outcomes[step.parent],
                reference=bench.reference,
                adaptor=step.adaptor.name,
                options=plan.options[step.adaptor.name],
                **bench.common,
            )
            assert isinstance(outcome, Artifact), outcome
            outcomes[step.namespace] = outcome
    assert len(outcomes) == 1 + len(route)
    return bench, list(outcomes.values())


def count_operators(artifact: Artifact, store: Store) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(store.locate(artifact) / "model.onnx").graph.node)


@pytest.mark.nightly
def test_four_bit_weights_of_one_toolchain_and_eight_bits_of_another(digits_models, tmp_path):
    bench, artifacts = run_chain(digits_models, tmp_path, WEIGHTS_THEN_CONVS, "openvino.f32")

    tree = ET.parse(bench.context.store.locate(artifacts[-1]) / "model.xml")  # noqa: S314 (our own file)
    layers = list(tree.getroot().iter("layer"))
    kinds = Counter(layer.get("type") for layer in layers)
    weights = [layer.find("data") for layer in layers if layer.get("type") == "Const"]
    four_bit = [data.get("shape") for data in weights if data.get("element_type") == "u4" and data.get("shape") != "1"]
    eight_bit = [data.get("shape") for data in weights if data.get("element_type") == "i8"]
    assert four_bit == ["64, 16, 32", "10, 2, 32"]  # both linear layers, in blocks of 32
    assert eight_bit == ["16, 1, 3, 3", "32, 16, 3, 3"]  # both convolutions
    assert kinds["FakeQuantize"] >= kinds["Convolution"] == 2  # and their activations
    validation = bench.validate(artifacts[-1], *WEIGHTS_THEN_CONVS, "openvino.f32")
    assert validation.status is Status.MEASURED, validation.reason
    assert artifacts[-1].runtime == "openvino"


def test_two_compressors_of_one_toolchain(digits_models, tmp_path):
    only = {"onnxruntime.int8-static": {"options": {"operators": ["Conv"]}}}
    bench, artifacts = run_chain(digits_models, tmp_path, CONVS_THEN_WEIGHTS, "onnxruntime.session", **only)

    eight_bit, both = (
        count_operators(artifacts[1], bench.context.store),
        count_operators(artifacts[2], bench.context.store),
    )
    assert (eight_bit["QuantizeLinear"], eight_bit["MatMulNBits"]) == (4, 0)
    assert (both["QuantizeLinear"], both["MatMulNBits"]) == (4, 2)
    assert {"QLinearConv", "MatMulNBits"} <= count_operators(
        artifacts[3], bench.context.store
    ).keys()  # as ONNX Runtime runs it
    validation = bench.validate(artifacts[-1], *CONVS_THEN_WEIGHTS, "onnxruntime.session")
    assert validation.status is Status.MEASURED, validation.reason


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="the flags are those of x86")
def test_one_store_serves_hosts_with_and_without_vnni(digits_models, tmp_path, monkeypatch):
    """Each kind of host gets an int8 of its own, finds it again, and the compiled model says which it is."""
    model = digits_models / "onnx" / "model.onnx"
    bench = make_bench(tmp_path, model, read_splits(digits_models), form="onnx", runtime="onnxruntime")
    quantizer, compiler = (read_catalogue().find_adaptor(f"onnxruntime.{name}") for name in ("int8-dynamic", "session"))
    monkeypatch.setattr(host, "_CPUINFO", tmp_path / "cpuinfo")
    built = {}
    for flags in ("avx2", "avx2 avx512_vnni") * 2:
        (tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
        quantized = transform(
            quantizer, quantizer.options(), bench.context.source, bench.context, reference=bench.reference
        )
        compiled = transform(compiler, compiler.options(), quantized, bench.context, reference=bench.reference)
        assert built.setdefault(flags, (quantized, compiled)) == (quantized, compiled)
    assert len(list((bench.context.run.folder / "steps").glob("*-onnxruntime.*"))) == 4
    for (quantized, compiled), largest in zip(built.values(), (64, 127), strict=True):
        weights = map(
            numpy_helper.to_array,
            onnx.load(bench.context.store.locate(quantized) / "model.onnx").graph.initializer,
        )
        assert max(np.abs(w.astype(int)).max() for w in weights if w.dtype == np.int8 and w.ndim > 1) == largest
        assert compiled.metadata["machine_options"] == {quantizer.name: {"reduce_range": largest == 64}}
