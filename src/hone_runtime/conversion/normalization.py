"""Normalize ONNX models for compilers: constants folded, sizes fixed if needed, in a supported opset and IR version.

Most failures of importers come from graphs as exporters write them: shapes computed by a dozen operators, weights in
separate files, opsets newer than the importer, declared domains without operators. The normalized model computes the
same. This is checked: both are run in ONNX Runtime, on the same random inputs.

ONNX Runtime also folds: its basic level writes operators of ONNX only. For TorchScript's export of a BERT with two
layers, with sizes fixed, it left 86 of 292 operators, in 0.1 seconds. onnxsim 0.8.1 left 118 and onnxslim 0.1.98 left
97, since they do not fix sizes. For an export with fixed sizes they left 86 and 80, in 2.1 and 1.2 seconds.

Toolchains' workers import this module as ``hone_runtime.conversion.normalization``. Needs NumPy, ONNX and ONNX Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from hone_runtime.conversion import opsets
from hone_runtime.conversion.distances import TOLERANCE
from hone_runtime.conversion.quantization import quantizes
from hone_runtime.onnx import dimensions
from hone_runtime.worker.refusal import UnsuitedError

Json = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]

LARGEST = 1_800_000_000
"""Limit of the weights in bytes, so that they fit into one file with the graph: protobuf's limit is 2 GiB."""
EXACT, ROUNDED = TOLERANCE, 0.1
"""Allowed difference of outputs, as a part of the largest one: additions have another order, which in quantized
graphs makes values round to the other side."""
_NUMBERS = {*("float16", "float32", "float64", "bool"), *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16))}
_NUMBERS |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (32, 64)}


def normalize(job: Json, *, sizes: Json | None = None, prefer: int | None = None) -> tuple[Any, Json]:
    """Return a job's ONNX model in a form that its consumer reads, and notes on the changes.

    Args:
        job: Its ``takes`` are the consumer's limits, the ``opsets`` and ``ir`` of its ``capabilities.yml``.
        sizes: Sizes of all dynamic dimensions, by name, which are then fixed; None leaves them dynamic.
        prefer: The opset that is tried first if the model has a higher one.

    Raises:
        UnsuitedError: It has operators of other domains, its weights exceed 2 GB, or no allowed opset can express it.
    """
    source, path = Path(job["input"]["path"], "model.onnx"), Path(job["temporary"], "normal.onnx")
    model = onnx.load(source, load_external_data=False)
    _require_small(source, model)
    onnx.load_external_data_for_model(model, str(source.parent))
    model.DiscardUnknownFields()  # unknown fields are from a newer ONNX
    opset, nodes = opsets.find_opset(model), len(model.graph.node)
    opsets.strip(model)
    dimensions.declare(model, job["input"])
    if sizes is not None:
        _fix_sizes(model, job["input"], sizes)
    onnx.save(model, path)
    check = _make_check(path, job["input"]["inputs"], sizes or _choose_sizes(job), rounds=_quantizes_activations(model))
    folded = _fold(path, model)
    if folded is not model and (fault := check(folded)):
        print(f"constants stay as they are: {fault}")  # noqa: T201 - into the log
        folded = model
    if foreign := sorted({node.domain for node in opsets.list_nodes(folded)} - {*opsets.OWN}):
        raise UnsuitedError(f"it has operators of {', '.join(foreign)}")
    made = opsets.fit_versions(folded, job.get("takes") or {}, prefer=prefer, check=check)
    notes = {"opset": [opset, opsets.find_opset(made)], "operators": [nodes, len(made.graph.node)]}
    return made, {"normalized": notes}


def _require_small(source: Path, model: Any) -> None:
    """Raise ``UnsuitedError`` if a model's weights do not fit into one file."""
    entries = [each for tensor in model.graph.initializer for each in tensor.external_data if each.key == "location"]
    size = sum((source.parent / name).stat().st_size for name in {"model.onnx", *(each.value for each in entries)})
    if size > LARGEST:
        raise UnsuitedError(f"its weights take {size / 1e9:.1f} GB, and one file of ONNX holds 2 GB at most")


def _fix_sizes(model: Any, described: Json, sizes: Json) -> None:
    """Replace dynamic dimensions by sizes, using the specs of the inputs and the outputs."""
    specs = {spec["name"]: spec["shape"] for side in ("inputs", "outputs") for spec in described[side]}
    for value in (*model.graph.input, *model.graph.output):
        for dim, known in zip(value.type.tensor_type.shape.dim, specs.get(value.name, ()), strict=False):
            if (size := sizes.get(known, known)) and isinstance(size, int):
                dim.dim_value = size


def _choose_sizes(job: Json) -> Json:
    """Return the sizes of the dynamic dimensions at the smallest of a job's shapes."""
    names = {dim for spec in job["input"]["inputs"] for dim in spec["shape"] if isinstance(dim, str)}
    known = [{name: shape["sizes"].get(name, 2) for name in names} for shape in job["shapes"]]
    return min(known, key=lambda sizes: math.prod(sizes.values()), default=dict.fromkeys(names, 2))


def _quantizes_activations(model: Any) -> bool:
    """Return whether a model has ONNX's operators that quantize activations."""
    return any(quantizes(node.op_type) for node in opsets.list_nodes(model))


def _fold(path: Path, model: Any) -> Any:
    """Return a model with constants folded; the same one if ONNX Runtime cannot write it."""
    import onnxruntime as ort

    options, folded = ort.SessionOptions(), path.with_name("folded.onnx")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath, options.log_severity_level = str(folded), 3
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - it raises classes of its own and of others
        print(f"constants stay as they are: {error}")  # noqa: T201 - into the log
        return model
    made = onnx.load(folded)
    made.DiscardUnknownFields()
    opsets.strip(made)
    return made


def _make_check(path: Path, specs: list[Json], sizes: Json, *, rounds: bool) -> Callable[[Any], str]:
    """Return a function that returns how another model's outputs differ from a file's; an empty string if equal."""
    feeds = _draw(specs, sizes)
    wanted = _run(str(path), feeds) if feeds else None
    if wanted is None:
        print("what is written is not compared with its source, which could not be run")  # noqa: T201 - into the log
        return lambda _: ""

    def check(other: Any) -> str:
        found = _run(other.SerializeToString(), feeds)
        if found is None:
            return "ONNX Runtime does not run it"
        for want, got in zip(wanted, found, strict=True):
            if want.shape != got.shape:
                return f"an output has the shape {got.shape} instead of {want.shape}"
            if want.dtype.name in _NUMBERS and not (error := _measure(want, got)) <= (ROUNDED if rounds else EXACT):
                return f"an output differs by {error:.3g} of its largest number"
        return ""

    return check


def _measure(want: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> float:
    """Return the largest difference, as a part of the largest finite number."""
    want, got = want.astype(np.float64), got.astype(np.float64)
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0.0)) or 1.0
    return float(np.abs(np.subtract(got, want, out=np.zeros_like(want), where=~same)).max(initial=0.0)) / scale


def _draw(specs: list[Json], sizes: Json) -> Arrays:
    """Return random inputs: normally distributed floats, and integers 0 and 1; an empty dictionary if an input is text.

    Zero and one are valid tokens, indices and masks of nearly every model.
    """
    if not specs or {spec["dtype"] for spec in specs} - _NUMBERS:
        return {}
    draw = np.random.default_rng(0)
    shapes = {spec["name"]: [sizes.get(dim, dim) for dim in spec["shape"]] for spec in specs}
    return {
        spec["name"]: (
            draw.standard_normal(shapes[spec["name"]])
            if spec["dtype"].startswith("float")
            else draw.integers(0, 2, shapes[spec["name"]])
        ).astype(spec["dtype"])
        for spec in specs
    }


def _run(model: str | bytes, feeds: Arrays) -> list[np.ndarray[Any, Any]] | None:
    """Return a model's outputs from ONNX Runtime without graph optimizations; None if it cannot run."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return [np.asarray(each) for each in session.run(None, feeds)]
    except Exception as error:  # noqa: BLE001 - it raises classes of its own and of others
        print(f"ONNX Runtime: {error}")  # noqa: T201 - into the log
        return None
