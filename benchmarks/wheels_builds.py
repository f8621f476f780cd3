"""The configurations of ``wheels.py``, which use the toolchains and nothing of kedro-hone; and its winner."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from turns import Order

SHAPE, SOURCE = "one", "source"

Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], list[np.ndarray]]
Model = Any
"""A ``WheelModel`` of the tests, which are not typed."""
Project = Any
"""A small project of the tests."""


def open_onnx(order: Order) -> Run:
    """Open an ONNX file in ONNX Runtime."""
    import onnxruntime as ort  # noqa: PLC0415 - each process opens one runtime

    options = ort.SessionOptions()
    options.intra_op_num_threads = order["threads"]
    options.log_severity_level = 3
    if order.get("flush"):
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = ort.InferenceSession(order["path"], options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def open_openvino(order: Order) -> Run:
    """Open a model in OpenVINO, in the order's precision, or by default in the one that OpenVINO chooses."""
    os.environ["CI"] = "true"  # no telemetry
    import openvino as ov  # noqa: PLC0415 - see above

    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": order["threads"]}
    if order["precision"]:
        hints["INFERENCE_PRECISION_HINT"] = order["precision"]
    request = ov.Core().compile_model(order["path"], "CPU", hints).create_infer_request()
    return lambda feeds: list(request.infer(feeds, share_inputs=True).values())


def open_torch(order: Order) -> Run:
    """Open a module of a wheel in eager PyTorch, frozen by TorchScript, or compiled."""
    import torch  # noqa: PLC0415 - see above

    torch.set_num_threads(order["threads"])
    network, example = importlib.import_module("wheel_networks").load_network(
        order["package"], Path(order["wheel"]), Path(order["folder"])
    )
    call: Any = network
    if order["torch"] == "script":
        call = torch.jit.optimize_for_inference(torch.jit.trace(network, example[:1]))
    elif order["torch"] == "compile":
        call = torch.compile(network, fullgraph=True)

    def run(feeds: Feeds) -> list[np.ndarray]:
        with torch.inference_mode():
            return [call(*(torch.from_numpy(array) for array in feeds.values())).numpy()]

    return run


def open_winner(order: Order) -> Run:
    """Open the winner as a user does; a finalist without proof is only in the store."""
    import kedro_hone  # noqa: PLC0415 - see above
    from hone_runtime.learner.openers import open_learner  # noqa: PLC0415 - see above
    from kedro_hone.core.store.artifacts import Store  # noqa: PLC0415 - see above

    if "path" in order:
        learner = kedro_hone.load(order["path"], threads=order["threads"], trust=["native"])
    else:
        store = Store(Path(order["store"]))
        artifact = store.find_artifact(order["digest"])
        if artifact is None:
            raise ValueError(f"the store has no {order['digest']}")
        learner = open_learner(artifact, store.locate(artifact), threads=order["threads"])
    return lambda feeds: list(learner.run(feeds).values())


OPENERS = {"onnx": open_onnx, "openvino": open_openvino, "torch": open_torch, "winner": open_winner}


def split(rows: Feeds) -> Iterator[Feeds]:
    """Yield each row alone, since some of these models accept only one row per call."""
    for row in range(len(next(iter(rows.values())))):
        yield {name: array[row : row + 1] for name, array in rows.items()}


def build(model: Model, project: Project, folder: Path) -> dict[str, Order]:
    """Write the configurations, and return how to open each; print which cannot be built."""
    source = folder / "source.onnx"
    orders: dict[str, Order] = {}
    if model.is_network:
        (wheel,) = project.root.parent.glob("*.whl")
        common = {"opener": "torch", "package": model.package, "wheel": str(wheel)}
        kinds = {SOURCE: "eager", "TorchScript, frozen": "script", "torch.compile": "compile"}
        orders = {name: {**common, "torch": kind} for name, kind in kinds.items()}
        attempt("an export to ONNX", lambda: export(model, wheel, source))
    else:
        given = project.root / project.parameters["model"]["uri"] / "model.onnx"
        orders[SOURCE] = {"opener": "onnx", "path": str(given)}
        fix(given, source, dict(np.load(folder / f"{SHAPE}.npz")))
    plain = {"opener": "onnx", "path": str(source)}
    orders["ONNX Runtime"] = plain
    orders["ONNX Runtime, denormals are zeros"] = {**plain, "flush": True}
    if attempt("dynamic int8", lambda: quantize(source, folder / "dynamic.onnx")):
        orders["ONNX Runtime, dynamic int8"] = {**plain, "path": str(folder / "dynamic.onnx")}
    for precision in ("f32", "bf16"):
        orders[f"OpenVINO {precision}"] = {**plain, "opener": "openvino", "precision": precision}
    if attempt("static int8", lambda: calibrate(source, folder, project)):
        int8 = {"opener": "openvino", "path": str(folder / "static.xml"), "precision": None}
        orders["OpenVINO, static int8"] = int8
    return orders


def attempt(what: str, write: Callable[[], None]) -> bool:
    """Return whether a configuration could be built; a toolchain may raise any exception."""
    try:
        write()
    except Exception as error:  # noqa: BLE001 - see above
        print(f"  {what} cannot be built: {type(error).__name__}: {str(error).strip()[:150]}", flush=True)
        return False
    return True


def export(model: Model, wheel: Path, path: Path) -> None:
    """Write a module as ONNX for one row."""
    import torch  # noqa: PLC0415 - slow to import

    network, example = importlib.import_module("wheel_networks").load_network(model.package, wheel, path.parent)
    (name,) = model.draw(1, np.random.default_rng(0))
    torch.onnx.export(
        network, (example[:1],), path, dynamo=True, input_names=[name], external_data=False, verbose=False
    )


def fix(source: Path, path: Path, row: Feeds, *, first: int = 0) -> None:
    """Write an ONNX file with the sizes of a row, from the first axis that is given."""
    import onnx  # noqa: PLC0415 - slow to import

    model = onnx.load(source)
    for value in model.graph.input:
        if value.name in row:
            dims = value.type.tensor_type.shape.dim
            for dimension, size in zip(dims[first:], row[value.name].shape[first:], strict=True):
                dimension.dim_value = size
    del model.graph.value_info[:]
    onnx.save(model, path)


def quantize(source: Path, path: Path) -> None:
    """Write a copy with int8 weights; ONNX Runtime quantizes its activations at run time."""
    from onnxruntime.quantization import quantize_dynamic  # noqa: PLC0415 - slow to import

    quantize_dynamic(source, path, per_channel=True)


def calibrate(source: Path, folder: Path, project: Project) -> None:
    """Write a copy that NNCF has quantized with the calibration rows."""
    import nncf  # noqa: PLC0415 - slow to import
    import openvino as ov  # noqa: PLC0415 - see above

    rows = list(split(dict(np.load(project.splits / "calibration.npz"))))
    model = nncf.quantize(ov.Core().read_model(source), nncf.Dataset(rows), subset_size=len(rows))
    ov.save_model(model, folder / "static.xml", compress_to_fp16=False)
