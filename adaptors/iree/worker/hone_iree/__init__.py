"""IREE's own code: import ONNX, compile it for this CPU, and run the result."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.conversion import normalization
from hone_runtime.sessions import compiled
from hone_runtime.worker.imports import require_cpu
from hone_runtime.worker.refusal import UnsuitedError

Json = dict[str, Any]

_SLOW_INTEGERS = re.compile("QuantizeLinear|^QLinear|Integer$")
_ENDING = ".vmfb"
_NAMES_FILE = "names.json"  # the order of the module's arguments and results, which have no names in the module


class _Session:
    """A compiled module on IREE's task system, with its default waiting policy."""

    def __init__(self, module: Path, names: dict[str, list[str]], config: Any) -> None:
        from iree import runtime

        self._inputs, self._outputs = names["inputs"], names["outputs"]
        self._context = runtime.SystemContext(config=config)
        # Not VmModule.mmap: it opens the file for writing, and a sealed artifact is read-only.
        opened = runtime.VmModule.copy_buffer(config.vm_instance, module.read_bytes())
        self._context.add_vm_module(opened)
        name = next(each for each in opened.function_names if not each.endswith("$async") and not each.startswith("__"))
        self._call = self._context.modules[opened.name][name]

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        result = self._call(*(feeds[name] for name in self._inputs))
        values = result if isinstance(result, tuple | list) else (result,)
        return {name: value.to_host() for name, value in zip(self._outputs, values, strict=True)}


def load(job: Json) -> Any:
    """Open the module for all sizes, or else the modules for some shapes each."""
    from iree import runtime

    require_cpu(job)
    artifact, folder = job["input"], Path(job["input"]["path"])
    names = json.loads((folder / _NAMES_FILE).read_text())
    runtime.flags.parse_flags(f"--task_topology_group_count={job['threads']}")  # read when the device is created
    config = runtime.Config("local-task")
    if not artifact["static_shapes"]:
        return _Session(_find_file(folder), names, config)
    return compiled.open_shapes(
        artifact, artifact["inputs"], lambda shape, _: _Session(_find_file(folder, shape), names, config)
    )


def _find_file(folder: Path, shape: Json | None = None) -> Path:
    """Return the path of the module for all sizes, or for a shape."""
    return folder / f"model{_ENDING}" if shape is None else Path(compiled.find_file(folder, shape, _ENDING))


def transform(job: Json) -> Json:
    """Compile ``model.onnx`` for all sizes at once or, if IREE cannot do that, for each of the recipe's shapes."""
    output, specs = Path(job["output"]), job["input"]["inputs"]
    free = any(isinstance(dim, str) for spec in specs for dim in spec["shape"])
    failed: Json = {}
    for chosen in ([None], job["shapes"]) if free and job["shapes"] else ([None],):
        for shape in chosen:
            try:
                model, notes = normalization.normalize(job, sizes=shape and shape["sizes"])
            except UnsuitedError as error:
                return {"refused": str(error)}
            if refusal := _find_refusal(model):
                return {"refused": refusal}
            if failed := _compile(job, model, _find_file(output, shape)):
                break
        if not failed:
            names = {side: [spec["name"] for spec in job["input"][side]] for side in ("inputs", "outputs")}
            (output / _NAMES_FILE).write_text(json.dumps(names))
            fixed = [one["name"] for one in chosen if one]
            return {"metadata": notes, **({"static_shapes": fixed} if fixed else {})}
    return {"failed": failed}


def _compile(job: Json, model: Any, module: Path) -> Json:
    """Import a model, and write it as a module; return the failure, or nothing."""
    import onnx

    temporary, options = Path(job["temporary"]), job["options"]
    source, imported = temporary / "model.onnx", temporary / "model.mlir"
    onnx.save(model, source)
    if failure := _call_tool("import_onnx", [str(source), "-o", str(imported)], imported):
        return {"class": "convert", "reason": f"iree-import-onnx: {failure}"}
    # In its own folder, since the compiler writes the name of its input into the result.
    arguments = [
        *(imported.name, "-o", str(module)),
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
        f"--iree-opt-level=O{options['level']}",
        f"--iree-llvmcpu-stack-allocation-limit={options['stack_bytes']}",
        "--iree-llvmcpu-debug-symbols=false",  # they contain paths of this machine
        *(["--iree-opt-data-tiling"] if options["data_tiling"] else []),
        *(["--iree-global-opt-use-im2col-for-convs"] if options["im2col"] else []),
    ]
    if failure := _call_tool("scripts.iree_compile", arguments, module, folder=temporary):
        module.unlink(missing_ok=True)
        return {"class": "compile", "reason": f"iree-compile: {failure}"}
    return {}


def _find_refusal(model: Any) -> str | None:
    """Return why IREE should not be tried: models in types other than fp32 are refused, crash it, or are slow."""
    from onnx import TensorProto

    weights, values = model.graph.initializer, (*model.graph.input, *model.graph.output)
    if quantized := sorted({node.op_type for node in model.graph.node if _SLOW_INTEGERS.search(node.op_type)}):
        return f"it is quantized ({', '.join(quantized)}), which IREE runs slower than fp32, or crashes on"
    types = {value.type.tensor_type.elem_type for value in values} | {tensor.data_type for tensor in weights}
    if half := {TensorProto.FLOAT16, TensorProto.BFLOAT16} & types:
        return f"it is in {TensorProto.DataType.Name(half.pop()).lower()}, which IREE runs slower than fp32 on a CPU"
    return None


def _call_tool(name: str, arguments: Sequence[str], result: Path, *, folder: Path | None = None) -> str | None:
    """Run one of IREE's tools; return its first error, or None if it wrote the result."""
    command = [sys.executable, "-I", "-m", f"iree.compiler.tools.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    sys.stderr.write(done.stderr[-20_000:])
    if done.returncode == 0 and result.is_file() and result.stat().st_size:  # it may exit normally with an empty file
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no output"]
    first = next((line for line in lines if "error" in line.lower()), lines[-1])
    return first[max(first.lower().find("error"), 0) :][:300] + _name_operator(first, folder)


def _name_operator(error: str, folder: Path | None) -> str:
    """Return the ONNX operator of an error, from the line of the imported model in the message."""
    place = re.match(r"([\w-]+\.mlir):(\d+):", error)
    if place is None or folder is None:
        return ""
    with (folder / place[1]).open() as file:
        line = next(itertools.islice(file, int(place[2]) - 1, None), "")
    found = re.search(r'"onnx\.(\w+)"', line)
    return f" (in {found[1]})" if found else ""
