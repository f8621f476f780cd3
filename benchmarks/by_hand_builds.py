"""Twelve configurations of each model of ``by_hand_models.py``, which use the toolchains and nothing of kedro-hone."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import by_hand_texts
import numpy as np
from by_hand_child import Feeds
from by_hand_models import Model
from turns import Order


def export(model: Model) -> Path:
    """Write the model as ONNX with dynamic dimensions, and return its path."""
    path = model.files / "fp32.onnx"
    if path.exists():
        return path
    if model.name == "minilm":
        by_hand_texts.export(path)
        return path
    import mlflow  # noqa: PLC0415 - slow to import
    import onnx  # noqa: PLC0415 - see above
    import torch  # noqa: PLC0415 - see above

    sys.path.insert(0, str(model.project))
    mlflow.set_tracking_uri(f"sqlite:///{model.project / 'data' / 'mlflow.db'}")
    version = 2 if model.name == "mobilenet" else 1
    network, sizes = mlflow.pytorch.load_model(f"models:/digits/{version}"), ({0: torch.export.Dim("batch")},)
    names = {"input_names": ["images"], "output_names": ["logits"]}
    torch.onnx.export(
        network, (torch.rand(2, 1, 8, 8),), f=path, dynamo=True, dynamic_shapes=sizes, verbose=False, **names
    )
    graph = onnx.load(path)
    del graph.graph.value_info[:]  # of weights that have since been transposed: ONNX's shape inference refuses them
    onnx.save(graph, path)
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)
    return path


def build(model: Model, *, modern: bool) -> dict[str, Order]:
    """Write the configurations of a model, and return how each is opened.

    Args:
        model: The model.
        modern: Whether the CPU has VNNI and BF16: without them weights get seven bits, and nothing is computed in bf16.
    """
    os.environ["CI"] = "true"  # no telemetry
    logging.getLogger("nncf").setLevel(logging.ERROR)
    onnx, bits = export(model), "" if modern else "-seven-bits"
    static = partial(_quantize_static, model, onnx, seven=not modern)
    orders: dict[str, Order] = {"ONNX Runtime fp32": {"path": onnx}}
    makers: dict[str, tuple[str, Callable[[Path], None]]] = {
        "dynamic int8": (f"dynamic{bits}.onnx", lambda path: _quantize_dynamic(onnx, path, seven=not modern)),
        "static int8": (f"static{bits}.onnx", static),
        "static int8, uint8 activations": (f"static-u8{bits}.onnx", lambda path: static(path, unsigned=True)),
        "static int8, entropy": (f"static-entropy{bits}.onnx", lambda path: static(path, method="Entropy")),
        "static int8, per tensor": (f"static-tensor{bits}.onnx", lambda path: static(path, per_channel=False)),
    }
    for name, (file, make) in makers.items():
        try:
            orders[f"ONNX Runtime, {name}"] = {"path": _make(model.files / file, make)}
        except ValueError as error:  # such as entropy, of an input that is always the same
            print(f"ONNX Runtime, {name}, cannot be built: {error}", flush=True)
    plain = _make(model.files / "plain.xml", lambda path: convert(onnx, path))
    weights = _make(model.files / "weights.xml", lambda path: _compress(plain, path))
    mixed = _make(
        model.files / f"mixed{bits}.xml", lambda path: _calibrate(model, plain, path, preset="MIXED", seven=not modern)
    )
    fast = _make(
        model.files / f"fast{bits}.xml",
        lambda path: _calibrate(model, plain, path, preset="PERFORMANCE", seven=not modern),
    )
    precision = "bf16" if modern else "f32"
    openvino = {
        "fp32": (plain, "f32"),
        "bf16": (plain, "bf16"),
        "int8 weights": (weights, precision),
        "static int8": (fast, "f32"),
        "static int8, bf16": (fast, "bf16"),
        "static int8, mixed": (mixed, precision),
    }
    for name, (path, each) in openvino.items():
        if modern or each != "bf16":
            orders[f"OpenVINO, {name}"] = {"path": path, "precision": each}
    return {name: {**order, "path": str(order["path"])} for name, order in orders.items()}


def _make(path: Path, write: Callable[[Path], None]) -> Path:
    if not path.exists():
        write(path)
    return path


def _read_calibration(model: Model) -> list[Feeds]:
    with np.load(model.files / "calibration.npz") as rows:
        arrays = {name: rows[name] for name in rows.files}
    return [
        {name: array[row : row + 1] for name, array in arrays.items()}
        for row in range(len(next(iter(arrays.values()))))
    ]


def _quantize_dynamic(source: Path, path: Path, *, seven: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - slow to import

    kinds = ["MatMul", "Gemm", "Attention"]
    options = {"per_channel": True, "reduce_range": seven, "weight_type": QuantType.QInt8}
    quantize_dynamic(source, path, op_types_to_quantize=kinds, extra_options={"DefaultTensorType": 1}, **options)


def _quantize_static(
    model: Model,
    source: Path,
    path: Path,
    *,
    seven: bool,
    unsigned: bool = False,
    method: str = "MinMax",
    per_channel: bool = True,
) -> None:
    from onnxruntime.quantization import (  # noqa: PLC0415 - slow to import
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415 - see above

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # mypy skips onnxruntime
        """The calibration's rows, one at a time."""

        def __init__(self) -> None:
            self._rows: Iterator[Feeds] = iter(_read_calibration(model))

        def get_next(self) -> Feeds | None:
            return next(self._rows, None)

    prepared = path.with_suffix(".prepared")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    quantize_static(
        prepared,
        path,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        reduce_range=seven,
        activation_type=QuantType.QUInt8 if unsigned else QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )
    prepared.unlink()


def convert(source: Path, path: Path) -> None:
    """Write an ONNX file as OpenVINO's IR, in fp32."""
    import openvino as ov  # noqa: PLC0415 - slow to import

    ov.save_model(ov.convert_model(source), path, compress_to_fp16=False)


def _compress(source: Path, path: Path) -> None:
    import nncf  # noqa: PLC0415 - slow to import
    import openvino as ov  # noqa: PLC0415 - see above

    compressed = nncf.compress_weights(ov.Core().read_model(source), mode=nncf.CompressWeightsMode.INT8_ASYM)
    ov.save_model(compressed, path, compress_to_fp16=False)


def _calibrate(model: Model, source: Path, path: Path, *, preset: str, seven: bool) -> None:
    import nncf  # noqa: PLC0415 - slow to import
    import openvino as ov  # noqa: PLC0415 - see above

    rows = _read_calibration(model)
    fix = nncf.OverflowFix.ENABLE if seven else nncf.OverflowFix.FIRST_LAYER
    quantized = nncf.quantize(
        ov.Core().read_model(source),
        nncf.Dataset(rows),
        preset=nncf.QuantizationPreset[preset],
        model_type=nncf.ModelType.TRANSFORMER if model.name == "minilm" else None,
        subset_size=len(rows),
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=fix),
    )
    ov.save_model(quantized, path, compress_to_fp16=False)
