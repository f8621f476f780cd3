"""MNN's own code: convert ONNX, and run the result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import MNN
import numpy as np
from MNN import expr

Json = dict[str, Any]


class _Session:
    """A network at whatever shapes it is called with."""

    def __init__(self, job: Json) -> None:
        folder = Path(job["input"]["path"])
        names = json.loads((folder / "names.json").read_text())
        self._inputs, self._outputs = names["inputs"], names["outputs"]
        options = {"precision": "high", "backend": "CPU", "numThread": job["threads"]}
        self._runtime = MNN.nn.create_runtime_manager((options,))
        path = str(folder / "model.mnn")
        self._net = MNN.nn.load_module_from_file(path, self._inputs, self._outputs, runtime_manager=self._runtime)

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = self._net.forward([_wrap(feeds[name]) for name in self._inputs])
        values = found if isinstance(found, list | tuple) else [found]
        return {
            name: np.array(expr.convert(value, expr.NCHW).read())
            for name, value in zip(self._outputs, values, strict=True)
        }


load = _Session


def _wrap(array: np.ndarray) -> Any:
    kind = expr.int if array.dtype == np.int32 else expr.float
    return expr.const(np.ascontiguousarray(array), list(array.shape), expr.NCHW, kind)


def transform(job: Json) -> Json:
    """Convert ``model.onnx`` into ``model.mnn``."""
    source, output = Path(job["input"]["path"]), Path(job["output"])
    if [path.name for path in source.iterdir()] != ["model.onnx"]:
        return {"refused": "its weights are in external data, which this adaptor does not take"}
    files = ["--modelFile", str(source / "model.onnx"), "--MNNModel", str(output / "model.mnn")]
    command = [sys.executable, "-I", "-c", "from MNN.tools.mnnconvert import main; main()", "-f", "ONNX", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=job["temporary"])
    sys.stderr.write(done.stdout[-20_000:] + done.stderr[-20_000:])
    if not (output / "model.mnn").exists() or "Converted Success" not in done.stdout + done.stderr:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        return {"failed": {"class": "convert", "reason": f"mnnconvert: {lines[-1][:300] if lines else 'no output'}"}}
    names = {side: [spec["name"] for spec in job["input"][side]] for side in ("inputs", "outputs")}
    (output / "names.json").write_text(json.dumps(names))
    return {}
