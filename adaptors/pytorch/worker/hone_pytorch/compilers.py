"""PyTorch's compilers: ``torch.compile``, AOTInductor and TorchScript."""

from __future__ import annotations

import json
import platform
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from . import archive, jobs, models
from .models import Job, Notes

_INDUCTOR = {
    "freezing": True,
    # Compiled headers cost 17 s of CPU, save 2 s for each shape after the first, and are deleted with the job.
    "aot_inductor.precompile_headers": False,
}


def skip_vector_check() -> None:
    """Skip a check of Inductor that takes 7 s of CPU at each start: whether this torch exports the headers for AVX.

    It builds three programs for this. The pinned wheels do export them, and a compiler that accepts their headers
    supports AVX. Support of VNNI, bfloat16 and AMX by CPU and compiler is still checked, and so is everything on other
    machines than x86.
    https://github.com/pytorch/pytorch/issues/100378
    """
    if platform.machine() == "x86_64":
        from torch._inductor import config  # takes a second, and only compilation needs it

        config.cpp.vec_isa_ok = True


def copy(job: Job) -> Notes:
    """Copy the files: the run options make the session compile the model when it is loaded."""
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True)
    return {}


def compile_ahead(job: Job) -> Notes:
    """Compile an exported program with AOTInductor: one package, with folded constants, for each recipe shape.

    Always static: it is faster, and a convolution quantized by PT2E and compiled with freezing and a *dynamic* batch
    is silently wrong (torch 2.13).
    """
    program, described = jobs.read_program(job)
    half = job["adaptor"].endswith("bf16")
    if half and archive.is_quantized(Path(job["input"]["path"]) / "model.pt2"):
        return {"refused": "the program is quantized already"}
    inputs, outputs = described["inputs"], described["outputs"]
    batches = {spec["shape"][0] for spec in inputs if spec["shape"]}
    shapes = [shape for shape in job["shapes"] if batches <= {"batch", shape["sizes"]["batch"]}]
    if not shapes:
        return {"refused": f"the model is fixed to {inputs[0]['shape']}, which is none of the recipe's shapes"}
    flat: nn.Module = models.flatten_program(program)
    if half:
        flat = _HalfPrecision(flat, [spec["dtype"] for spec in outputs])
    torch.set_num_threads(job["threads"])  # the number is written into the compiled loops
    skip_vector_check()
    packages = []
    for shape in shapes:
        examples = jobs.make_examples(inputs, shape["sizes"])
        name = f"model-{shape['name']}.pt2"
        with torch.no_grad():  # without it, freezing is silently ignored
            static, path = torch.export.export(flat, examples), str(Path(job["output"]) / name)
            # The AOTInductor API has no public name for this function.
            torch._inductor.aoti_compile_and_package(static, package_path=path, inductor_configs=_INDUCTOR)  # noqa: SLF001
        packages.append({"file": name, "shapes": [list(example.shape) for example in examples]})
    cpu = torch.backends.cpu.get_cpu_capability()
    index = {"cpu": cpu, "inputs": inputs, "outputs": outputs, "packages": packages}
    (Path(job["output"]) / "index.json").write_text(json.dumps(index, indent=2))
    return {"outputs": outputs, "static_shapes": [shape["name"] for shape in shapes]}


class _HalfPrecision(nn.Module):  # type: ignore[misc]  # torch has no types here
    """A model that computes in bfloat16, and retains the types of its inputs and outputs."""

    def __init__(self, model: nn.Module, dtypes: Sequence[str]) -> None:
        super().__init__()
        self.model = model.to(torch.bfloat16)
        self.dtypes = [getattr(torch, dtype) for dtype in dtypes]
        for module in _list_graphs(model):  # an export records types that came from tensors among its arguments
            for node in module.graph.nodes:
                node.args, node.kwargs = fx.node.map_aggregate((node.args, node.kwargs), _halve)
            module.recompile()

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = self.model(*(t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors))
        return tuple(value.to(dtype) for value, dtype in zip(values, self.dtypes, strict=True))


def _halve(value: Any) -> Any:
    return torch.bfloat16 if value is torch.float32 else value


def _list_graphs(model: nn.Module) -> list[fx.GraphModule]:
    return [module for module in model.modules() if isinstance(module, fx.GraphModule)]


def trace(job: Job) -> Notes:
    """Trace a model into TorchScript, frozen if it will be run, and check it at another batch size."""
    described = job["input"]
    if described["format"] in {"pytorch-module", "transformers"}:
        flat = jobs.open_module(job)
    else:
        program, described = jobs.read_program(job)
        flat = models.flatten_program(program)
        for module in _list_graphs(flat):
            _make_traceable(module)
    inputs, outputs = described["inputs"], described["outputs"]
    sizes = jobs.choose_sizes(job, inputs)
    examples = jobs.make_examples(inputs, sizes)
    others = jobs.make_examples(inputs, {**sizes, "batch": 5})
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        try:
            script = torch.jit.trace(flat, examples, check_trace=False)
            if job["adaptor"] == "pytorch.torchscript":
                script = torch.jit.freeze(script)
        except Exception as error:  # noqa: BLE001 - the tracer raises many classes
            return jobs.fail("compile", "the model cannot be traced", error)
        try:
            pairs = zip(script(*others), flat(*others), strict=True)
            same = all(a.shape == b.shape and _are_close(a, b) for a, b in pairs)
        except RuntimeError as error:
            return jobs.fail("compile", "the traced model takes no other batch size", error)
    if not same:
        reason = "the traced model returns other values at another batch size: "
        return jobs.fail("numerics", reason + _explain_frozen([str(each.message) for each in caught]))
    names = json.dumps({"inputs": inputs, "outputs": outputs})
    torch.jit.save(script, Path(job["output"]) / "model.ts", _extra_files={archive.NAMES_FILE: names})
    return {"outputs": outputs}


def _are_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True))


def _explain_frozen(messages: Sequence[str]) -> str:
    """Return which values the tracer recorded as constants from the example, according to its warnings."""
    if any("to a Python boolean" in each for each in messages):
        return "it branches on its input, and the tracer keeps the branch of the example"
    return "the tracer keeps what the model computed from the sizes of the example"


def _make_traceable(module: fx.GraphModule) -> None:
    """Make the sizes that an exported program computes with visible to the tracer.

    An export writes sizes as ``aten.sym_size`` and passes them to operators; the tracer records the results of both for
    the example as constants. It follows sizes only through ``Tensor.size`` and the Python functions of ``torch``, which
    are the same operators. The program's own check of its inputs is Python code, and cannot be traced. The module, a
    result of ``ExportedProgram.module``, is changed in place.
    """
    module.validate_inputs = False
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.sym_size.int:
            node.op, node.target = "call_method", "size"
        elif hasattr(node.target, "overloadpacket"):
            values = [each.meta.get("val") for each in node.all_input_nodes]
            if any(isinstance(value, torch.SymInt | torch.SymFloat) for value in values):
                _call_from_python(node)
    module.recompile()


def _call_from_python(node: fx.Node) -> None:
    """Call Python's method or function with an operator's name instead of the operator, if it exists."""
    name, first = node.target.overloadpacket.__name__, next(iter(node.args), None)
    of_tensor = isinstance(first, fx.Node) and isinstance(first.meta.get("val"), torch.Tensor)
    if node.target is torch.ops.aten.slice.Tensor:
        node.target = _slice_tensor
    elif of_tensor and hasattr(torch.Tensor, name):
        node.op, node.target = "call_method", name
    elif function := getattr(torch, name, None):
        node.target = function


def _slice_tensor(
    tensor: torch.Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> torch.Tensor:
    """Cut a tensor as ``aten.slice`` does, which has no name in Python."""
    return tensor[(slice(None),) * (dim % tensor.dim()) + (slice(start, end, step),)]
