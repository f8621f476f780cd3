"""Models of more than 2 GB, whose weights are in a file of their own, by a small one for which the limit is lowered."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest

from kedro_hone.adaptors.onnxruntime import adaptor as module

pytestmark = pytest.mark.toolchain

QUANTIZE = """
import json, sys
from hone_runtime.worker.packages import import_worker
worker = import_worker(sys.argv[1])
job = json.loads(sys.argv[2])
from hone_onnxruntime import graphs, quantization
graphs._LARGEST = 10_000
staged, found = [], {}
stage, quantize = graphs.stage, quantization.quantization.quantize_dynamic

def keep(model, job):
    staged.append(model)
    return stage(model, job)

def look(*args, **kwargs):
    found.update(held=sys.getrefcount(staged[0]) - 2, external=kwargs["use_external_data_format"])
    return quantize(*args, **kwargs)

graphs.stage, quantization.quantization.quantize_dynamic = keep, look
print(json.dumps([worker.transform(job), found]))
"""


def test_int8_of_a_large_model_holds_the_original_no_longer_than_needed(digits_onnx, tmp_path):
    """The quantizer itself has it three times; a fourth was more memory than a worker may take."""
    for name in ("output", "temporary"):
        (tmp_path / name).mkdir()
    job = {
        "adaptor": "onnxruntime.int8-dynamic",
        "input": {"path": str(digits_onnx)},
        "output": str(tmp_path / "output"),
        "temporary": str(tmp_path / "temporary"),
        "options": {"per_channel": True, "reduce_range": False, "exclude": []},
    }
    command = [sys.executable, "-c", QUANTIZE, str(module.TOOLCHAIN.worker), json.dumps(job)]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    notes, found = json.loads(done.stdout.splitlines()[-1])
    assert notes["metadata"]["quantized_operators"]
    assert found == {"held": 0, "external": True}
    made = onnx.load(tmp_path / "output" / "model.onnx")
    assert {tensor.data_type for tensor in made.graph.initializer} >= {onnx.TensorProto.INT8}
    assert all(np.isfinite(onnx.numpy_helper.to_array(tensor)).all() for tensor in made.graph.initializer)
