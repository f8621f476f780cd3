"""Quantize with ``modelopt.onnx.quantization`` and cast with ``modelopt.onnx.autocast``.

Both work on a copy in the job's temporary folder, since they write files next to the given model.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hone_onnxruntime import cached, graphs

from hone_runtime.sessions import shapes

Json = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]

_HALF = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


def transform(job: Json) -> Json:
    """Write ``model.onnx`` into the job's output, and return notes."""
    model = graphs.read(Path(job["input"]["path"]))
    present = graphs.count(model)
    if present.keys() & graphs.QUANTIZED:
        return {"nothing_to_do": "the graph is quantized already"}
    if graphs.is_large(model):
        return {"refused": "its weights pass 1.8 GB, and Model Optimizer holds several copies of a model"}
    if cached.list_cache(model):
        return {"refused": "it has a cache of keys and values, which Model Optimizer takes for weights"}
    rows = _read_rows(job)
    half = job["adaptor"] == "modelopt.fp16"
    made = _cast(job, model, rows) if half else _quantize(job, model, rows)
    if half:
        count = _count_half(made)
        if not count:
            return {"nothing_to_do": "no operator of this graph could be cast to fp16"}
        notes: Json = {"half_tensors": count}
    else:
        gained = graphs.count(made) - present
        if not gained["QuantizeLinear"]:
            return {"nothing_to_do": "the quantizer took no operator of this graph"}
        notes = {"quantized_tensors": gained["QuantizeLinear"]}
    onnx.save(made, Path(job["output"]) / "model.onnx")
    return {"metadata": notes}


def _quantize(job: Json, model: Any, rows: Arrays) -> Any:
    from modelopt.onnx.quantization import quantize

    options, path = job["options"], Path(job["temporary"]) / "int8.onnx"
    quantize(
        str(graphs.stage(model, job)),
        quantize_mode="int8",
        calibration_data=rows,
        calibration_method=options["calibration"],
        calibration_eps=["cpu"],
        high_precision_dtype=options["rest"],
        mha_accumulation_dtype=options["rest"],
        nodes_to_exclude=list(options["exclude"]) or None,
        output_path=str(path),
        log_level="WARNING",
    )
    return onnx.load(path)


def _cast(job: Json, model: Any, rows: Arrays) -> Any:
    from modelopt.onnx.autocast import convert_to_mixed_precision

    options, path = job["options"], Path(job["temporary"]) / "rows.npz"
    np.savez(path, **rows)  # type: ignore[arg-type]  # no input is called allow_pickle
    return convert_to_mixed_precision(
        onnx_path=str(graphs.stage(model, job)),
        low_precision_type="fp16",
        nodes_to_exclude=list(options["exclude"]) or None,
        data_max=options["largest"],
        keep_io_types=True,
        calibration_data=str(path),
        providers=["cpu"],
    )


def _read_rows(job: Json) -> Arrays:
    """Return the calibration rows, in whole calls if the batch is fixed; filled up with the first rows."""
    specs, most = job["input"]["inputs"], job["options"]["samples"]
    with np.load(job["calibration"], allow_pickle=False) as data:
        arrays = {spec["name"]: data[spec["name"]] for spec in specs}
    count, size = len(arrays[specs[0]["name"]]), shapes.find_fixed_batch(spec["shape"] for spec in specs)
    wanted = min(most, count)
    if size:  # AutoCast passes all rows in one call
        wanted = size if job["adaptor"] == "modelopt.fp16" else -(-wanted // size) * size
    numbers = np.resize(np.arange(count), wanted)
    return {name: array[numbers] for name, array in arrays.items()}


def _count_half(model: Any) -> int:
    """Return the number of weights and casts of a graph in half precision."""
    casts = (each.i for node in model.graph.node if node.op_type == "Cast" for each in node.attribute)
    kinds = Counter([*casts, *(tensor.data_type for tensor in model.graph.initializer)])
    return sum(kinds[kind] for kind in _HALF)
