"""IREE's own code: import ONNX, compile it for this CPU, and run the result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hone_loading import require_cpu

Json = dict[str, Any]

_LOWEST_OPSET = 17  # older models are converted to it: IREE's importer supports few of their operators
_QUANTIZED = re.compile("QuantizeLinear|^QLinear|Integer$")
_NAMES_FILE = "names.json"  # has the order of the module's arguments and results, which it does not name


class _Session:
    """A compiled module on IREE's task system, with its default waiting policy."""

    def __init__(self, job: Json) -> None:
        from iree import runtime

        require_cpu(job)
        folder = Path(job["input"]["path"])
        names = json.loads((folder / _NAMES_FILE).read_text())
        self._inputs, self._outputs = names["inputs"], names["outputs"]
        runtime.flags.parse_flags(f"--task_topology_group_count={job['threads']}")  # read when the device is made
        config = runtime.Config("local-task")
        self._context = runtime.SystemContext(config=config)
        # Not VmModule.mmap: it opens the file for writing, and a sealed artifact is read-only.
        module = runtime.VmModule.copy_buffer(config.vm_instance, (folder / "model.vmfb").read_bytes())
        self._context.add_vm_module(module)
        name = next(each for each in module.function_names if not each.endswith("$async") and not each.startswith("__"))
        self._call = self._context.modules[module.name][name]

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        result = self._call(*(feeds[name] for name in self._inputs))
        values = result if isinstance(result, tuple | list) else (result,)
        return {name: value.to_host() for name, value in zip(self._outputs, values, strict=True)}


load = _Session


def transform(job: Json) -> Json:
    """Compile ``model.onnx`` into ``model.vmfb``."""
    import onnx

    source = Path(job["input"]["path"], "model.onnx")
    model = onnx.load(source, load_external_data=False)
    if refusal := _find_refusal(model):
        return {"refused": refusal}
    temporary, output = Path(job["temporary"]), Path(job["output"])
    imported, module = temporary / "model.mlir", output / "model.vmfb"
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    upgrade = ["--opset-version", str(_LOWEST_OPSET)] if opset < _LOWEST_OPSET else []
    if failure := _call_tool("import_onnx", [str(source), *upgrade, "-o", str(imported)], imported):
        return {"failed": {"class": "convert", "reason": f"iree-import-onnx: {failure}"}}
    options = job["options"]
    # From a folder of its own, since the compiler writes the name of its input into what it makes.
    arguments = [
        *(imported.name, "-o", str(module)),
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
        f"--iree-opt-level=O{options['level']}",
        f"--iree-llvmcpu-stack-allocation-limit={options['stack_bytes']}",
        "--iree-llvmcpu-debug-symbols=false",  # they hold the paths of this machine
        *(["--iree-opt-data-tiling"] if options["data_tiling"] else []),
        *(["--iree-global-opt-use-im2col-for-convs"] if options["im2col"] else []),
    ]
    if failure := _call_tool("scripts.iree_compile", arguments, module, folder=temporary):
        return {"failed": {"class": "compile", "reason": f"iree-compile: {failure}"}}
    names = {side: [spec["name"] for spec in job["input"][side]] for side in ("inputs", "outputs")}
    (output / _NAMES_FILE).write_text(json.dumps(names))
    return {}


def _find_refusal(model: Any) -> str | None:
    """Return why IREE should not be tried: models in other types than fp32 are refused, crash it, or are slow."""
    from onnx import TensorProto

    weights, values = model.graph.initializer, (*model.graph.input, *model.graph.output)
    if foreign := sorted({node.domain for node in model.graph.node} - {"", "ai.onnx"}):
        return f"it has operators of {', '.join(foreign)}"
    if quantized := sorted({node.op_type for node in model.graph.node if _QUANTIZED.search(node.op_type)}):
        return f"it is quantized ({', '.join(quantized)}), which IREE runs slower than fp32, or crashes on"
    types = {value.type.tensor_type.elem_type for value in values} | {tensor.data_type for tensor in weights}
    if half := {TensorProto.FLOAT16, TensorProto.BFLOAT16} & types:
        return f"it is in {TensorProto.DataType.Name(half.pop()).lower()}, which IREE runs slower than fp32 on a CPU"
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in weights):
        return "its weights are in external data, which this adaptor does not take"
    return None


def _call_tool(name: str, arguments: Sequence[str], result: Path, *, folder: Path | None = None) -> str | None:
    """Run one of IREE's tools; return its first error, or None when it wrote the result."""
    command = [sys.executable, "-I", "-m", f"iree.compiler.tools.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    sys.stderr.write(done.stderr[-20_000:])
    if done.returncode == 0 and result.is_file() and result.stat().st_size:  # it has ended well with an empty file
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no output"]
    first = next((line for line in lines if "error" in line.lower()), lines[-1])
    return first[max(first.lower().find("error"), 0) :][:300]
