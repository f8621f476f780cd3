"""PyTorch's compilers: ``torch.compile`` and AOTInductor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import archive, jobs, models
from .models import Job, Notes

_INDUCTOR = {
    "freezing": True,
    # Compiled headers cost 17 s of CPU, save 2 s for each shape after the first, and end with the job.
    "aot_inductor.precompile_headers": False,
}


def copy(job: Job) -> Notes:
    """Copy the files: the run options make the session compile the model when it is loaded."""
    manifest = shutil.ignore_patterns("artifact.json")  # the host writes the new artifact's own
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True, ignore=manifest)
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
    packages = []
    for shape in shapes:
        examples = jobs.make_examples(inputs, shape["sizes"], job["calibration"])
        name = f"model-{shape['name']}.pt2"
        with torch.no_grad():  # without it, freezing is silently ignored
            static = torch.export.export(flat, examples)
            torch._inductor.aoti_compile_and_package(  # noqa: SLF001 - there is no public name
                static, package_path=str(Path(job["output"]) / name), inductor_configs=_INDUCTOR
            )
        packages.append({"file": name, "shapes": [list(example.shape) for example in examples]})
    cpu = torch.backends.cpu.get_cpu_capability()
    index = {"cpu": cpu, "inputs": inputs, "outputs": outputs, "packages": packages}
    (Path(job["output"]) / "index.json").write_text(json.dumps(index, indent=2))
    return {"outputs": outputs, "static_shapes": [shape["name"] for shape in shapes]}


class _HalfPrecision(nn.Module):  # type: ignore[misc]  # torch has no types here
    """A model that computes in bfloat16 and keeps the types of its inputs and outputs."""

    def __init__(self, model: nn.Module, dtypes: Sequence[str]) -> None:
        super().__init__()
        self.model = model.to(torch.bfloat16)
        for module in filter(lambda each: isinstance(each, torch.fx.GraphModule), model.modules()):
            _replace_float32(module)
        self.dtypes = [getattr(torch, dtype) for dtype in dtypes]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cast, call, cast back."""
        values = self.model(*(t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors))
        return tuple(value.to(dtype) for value, dtype in zip(values, self.dtypes, strict=True))


def _replace_float32(module: torch.fx.GraphModule) -> None:
    """Replace float32 by bfloat16 in a graph's arguments: an export records types that came from tensors."""

    def replace(value: Any) -> Any:
        return torch.bfloat16 if value is torch.float32 else value

    for node in module.graph.nodes:
        node.args, node.kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), replace)
    module.recompile()
