"""Small winners for the tests of exports: real graphs, run by their runtimes for the golden rows, in sealed folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.proof import EVIDENCE_FOLDER, GOLDEN
from hone_runtime.learner import Learner
from hone_runtime.learner.download import fetch_winner
from hone_runtime.learner.golden import make_golden
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.serving.winner import ServedWinner, describe_winner

Arrays = Mapping[str, np.ndarray[Any, Any]]

WEIGHTS = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
ROWS = np.random.default_rng(8).normal(size=(5, 4)).astype(np.float32)
X = TensorSpec(name="x", dtype="float32", shape=("batch", 4))
Y = TensorSpec(name="y", dtype="float32", shape=("batch", 3))
LABEL = TensorSpec(name="label", dtype="int64", shape=("batch",))


def write_onnx(folder: Path, *, rows: int | str = "batch", domain: str = "") -> None:
    """Write ``y = x @ WEIGHTS`` and its largest column ``label``; with a domain, by one of its operators."""
    import onnx
    from onnx import TensorProto, helper

    floats = TensorProto.FLOAT
    product = helper.make_node("FusedMatMul" if domain else "MatMul", ["x", "w"], ["y"], domain=domain)
    graph = helper.make_graph(
        [product, helper.make_node("ArgMax", ["y"], ["label"], axis=1, keepdims=0)],
        "net",
        [helper.make_tensor_value_info("x", floats, [rows, 4])],
        [
            helper.make_tensor_value_info("y", floats, [rows, 3]),
            helper.make_tensor_value_info("label", TensorProto.INT64, [rows]),
        ],
        [helper.make_tensor("w", floats, WEIGHTS.shape, WEIGHTS.tobytes(), raw=True)],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")


def write_ir(folder: Path) -> None:
    """Write ``y = x @ WEIGHTS`` as OpenVINO's IR."""
    import openvino as ov
    from openvino import opset13 as ops

    x = ops.parameter([-1, 4], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    product = ops.matmul(x, ops.constant(WEIGHTS), transpose_a=False, transpose_b=False)
    product.output(0).get_tensor().set_names({"y"})
    ov.save_model(ov.Model([product], [x], "net"), folder / "model.xml", compress_to_fp16=False)


def write_text_onnx(folder: Path) -> None:
    """Write ``y = t``, a graph of text."""
    import onnx
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.STRING, ["batch", 2]) for name in ("t", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["t"], ["y"])], "net", values[:1], values[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )


def make_winner(
    folder: Path,
    write: Callable[[Path], None],
    *,
    stack: ExitStack,
    inputs: tuple[TensorSpec, ...] = (X,),
    outputs: tuple[TensorSpec, ...] = (Y, LABEL),
    rows: Arrays | None = None,
    run: bool = True,
    name: str = "digits",
    **attributes: Any,
) -> ServedWinner:
    """Return a winner in a folder as it is published: the artifact with its manifest, and its golden rows.

    Args:
        folder: A folder that does not exist.
        write: Writes the files of the artifact.
        stack: As in ``fetch_winner``.
        inputs: The artifact's inputs.
        outputs: The artifact's outputs.
        rows: The golden rows' inputs; ``ROWS`` by default.
        run: Whether there are golden rows, which the winner's own runtime computes.
        name: The name in the server.
        **attributes: Other attributes of the artifact.
    """
    files = folder / "artifact"
    files.mkdir(parents=True)
    write(files)
    given = {"format": "onnx", "runtime": "onnxruntime", "metadata": {"threads": 1}, **attributes}
    artifact = Artifact(digest="", inputs=inputs, outputs=outputs, **given)
    artifact = artifact.model_copy(update={"digest": Manifest.measure(files, artifact.manifest()).digest})
    write_manifest(files, artifact)
    if run:
        feeds = {"x": ROWS} if rows is None else dict(rows)
        runs = Learner(artifact, files, interface="onnx").list_runs()
        parts = [
            {name: array.astype(str) if array.dtype.kind == "O" else array for name, array in one(feeds).items()}
            for one in runs
        ]
        golden = make_golden(
            feeds,
            parts[0],
            rows=len(next(iter(feeds.values()))),
            largest_error=0.0,
            source=artifact,
            host=read_host(),
            parts=parts if len(parts) > 1 else (),
        )
        assert golden is not None
        (folder / EVIDENCE_FOLDER).mkdir()
        (folder / EVIDENCE_FOLDER / GOLDEN).write_text(golden.model_dump_json())
    return describe_winner(fetch_winner(str(folder), stack, verify=None, vouched=True), str(folder), name=name)


def make_onnx_winner(folder: Path, *, stack: ExitStack, **attributes: Any) -> ServedWinner:
    """Return a winner for ONNX Runtime, saved as it optimized the graph."""
    saved = {"run_options": {"graph_optimization": "disabled"}, **attributes}
    return make_winner(folder, write_onnx, stack=stack, **saved)


def make_text_winner(folder: Path, *, stack: ExitStack, **attributes: Any) -> ServedWinner:
    """Return a winner for ONNX Runtime that takes and returns text."""
    specs = [TensorSpec(name=name, dtype="str", shape=("batch", 2)) for name in ("t", "y")]
    rows = {"t": np.array([["ä", "beta"], ["", "c"]])}
    sides = {"inputs": (specs[0],), "outputs": (specs[1],)}
    return make_winner(folder, write_text_onnx, stack=stack, rows=rows, **sides, **attributes)


def make_ir_winner(folder: Path, *, stack: ExitStack, **attributes: Any) -> ServedWinner:
    """Return a winner for OpenVINO."""
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    given = {"format": "openvino-ir", "runtime": "openvino", "outputs": (Y,), "run_options": options, **attributes}
    return make_winner(folder, write_ir, stack=stack, **given)


def make_composite(folder: Path, *, stack: ExitStack, **attributes: Any) -> ServedWinner:
    """Return a composite: one row in ONNX Runtime, all other numbers of rows in OpenVINO."""

    def write(files: Path) -> None:
        for number, write_part in enumerate((write_ir, write_onnx)):
            place = files / "parts" / str(number)
            place.mkdir(parents=True)
            write_part(place)

    parts = [
        {
            "candidate": "ir>f32",
            "digest": "sha256:1",
            "runtime": "openvino",
            "format": "openvino-ir",
            "run_options": {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"},
            "shapes": {"bulk": {"batch": 64}},
        },
        {
            "candidate": "session",
            "digest": "sha256:2",
            "runtime": "onnxruntime",
            "format": "onnx",
            "shapes": {"single": {"batch": 1}},
        },
    ]
    given = {"metadata": {"threads": 1, "parts": parts}, **attributes}
    return make_winner(folder, write, stack=stack, format="composite", runtime="composite", outputs=(Y,), **given)


def make_static_winner(folder: Path, *, form: str, runtime: str, stack: ExitStack, ending: str) -> ServedWinner:
    """Return a winner with a file for each of two shapes, whose files are none of its runtime's."""

    def write(files: Path) -> None:
        for name in ("single", "bulk"):
            (files / f"model-{name}{ending}").write_text(name)
        (files / "index.json").write_text("{}")

    shapes = (Shape(name="single", sizes={"batch": 1}), Shape(name="bulk", sizes={"batch": 3}))
    return make_winner(
        folder, write, stack=stack, run=False, format=form, runtime=runtime, outputs=(Y,), static_shapes=shapes
    )
