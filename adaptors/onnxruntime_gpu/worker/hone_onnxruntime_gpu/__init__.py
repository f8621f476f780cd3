"""ONNX Runtime on NVIDIA GPUs: run ONNX models, and prove that no operator fell back to the CPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import hone_onnxruntime

from . import session

load, describe = session.open_session, hone_onnxruntime.describe


def transform(job: dict[str, Any]) -> dict[str, Any]:
    """Copy the model into the job's output after one profiled call that shows which provider runs its operators."""
    from hone_onnxruntime import cached, graphs

    source = Path(job["input"]["path"])
    if cached.list_cache(graphs.read_graph(source)):
        return {"refused": "it has a cache of keys and values, which is not kept on a GPU yet"}
    try:
        placed = session.place(job)
    except session.FallbackError as error:
        return {"refused": str(error)}
    shutil.copytree(source, job["output"], dirs_exist_ok=True)
    return {"metadata": placed}


def probe(job: dict[str, Any]) -> dict[str, Any]:
    """Return what this machine ``lacks`` for the job's adaptor: a one-operator graph must be placed on the GPU."""
    import onnx

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> one (float[4] x) => (float[4] y) { y = Relu(x) }'
    )
    onnx.save(model, Path(job["temporary"], "model.onnx"))
    inputs = [{"name": "x", "dtype": "float32", "shape": [4]}]
    fields = {"input": {"path": job["temporary"], "inputs": inputs}, "shapes": [{"sizes": {}}]}
    try:
        session.place({**job, **fields})
    except session.FallbackError as error:
        return {"lacks": str(error)}
    return {}
