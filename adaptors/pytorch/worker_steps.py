"""The adaptors' work: one function for each."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import worker_archive as archive
from . import worker_models as models

Job = dict[str, Any]
Notes = dict[str, Any]

_LARGEST_ONNX = 1_900_000_000  # protobuf ends at 2 GiB, and the graph takes some of it


# --- describe ---------------------------------------------------------------------------------------------------------


def describe(job: Job) -> Notes | None:
    """Return the specs of a saved model, or None for a format that is not PyTorch's."""
    artifact = job["input"]
    folder = Path(artifact["path"])
    if artifact["format"] == "pytorch":
        path = folder / "model.pt2"
        return models.describe_program(models.read_program(path, job.get("trust") or ()), archive.read_names(path))
    if artifact["format"] == "pytorch-module":
        return _describe_module(job, folder)
    if artifact["format"] == "torchscript":
        files = {archive.NAMES_FILE: ""}
        model = torch.jit.load(folder / "model.ts", map_location="cpu", _extra_files=files)
        names = json.loads(files[archive.NAMES_FILE] or "null") or artifact
        graph = hashlib.sha256(str(model.inlined_graph).encode()).hexdigest()
        return {"inputs": names["inputs"], "outputs": names["outputs"], "graph": "sha256:" + graph}
    if artifact["format"] == "aot-inductor":
        index = json.loads((folder / "index.json").read_text())
        return {"inputs": index["inputs"], "outputs": index["outputs"]}
    return None


def _describe_module(job: Job, folder: Path) -> Notes:
    """Run the class at two batch sizes: a class says nothing of its results without being run."""
    inputs, known = _module_specs(job)
    module = models.read_module(folder, job.get("trust") or ())
    flat = models.Flat(module, models.find_keywords(module, [spec["name"] for spec in inputs]))
    sizes = _choose_sizes(job, inputs)
    other = {name: size + 1 if name == "batch" else size for name, size in sizes.items()}
    with torch.inference_mode():
        examples, others = (models.make_examples(inputs, each, job.get("calibration")) for each in (sizes, other))
        named = models.name_outputs(_call(flat, examples))
        first, second = named.values(), flat(*others)
    outputs = []
    for index, (name, one, two) in enumerate(zip(named, first, second, strict=True)):
        shape = ["batch" if a != b else a for a, b in zip(one.shape, two.shape, strict=True)]
        chosen = known[index]["name"] if known and len(known) == len(named) else name
        outputs.append({"name": chosen, "dtype": str(one.dtype).removeprefix("torch."), "shape": shape})
    return {"inputs": inputs, "outputs": outputs}


def _call(flat: models.Flat, tensors: Sequence[torch.Tensor]) -> Any:
    return flat.model(**dict(zip(flat.keywords, tensors, strict=True))) if flat.keywords else flat.model(*tensors)


def _module_specs(job: Job) -> tuple[list[models.Spec], list[models.Spec]]:
    """Return the specs of the host, or else those in ``module.json``."""
    reference = models.read_reference(Path(job["input"]["path"]))
    inputs = job["input"].get("inputs") or reference.get("inputs")
    if not inputs:
        raise ValueError("a class does not say what it takes: the recipe, or module.json, must state its inputs")
    return inputs, job["input"].get("outputs") or reference.get("outputs") or []


def _choose_sizes(job: Job, specs: Sequence[models.Spec]) -> dict[str, int]:
    """Return example sizes: those of the recipe's first shape, and 3 rows, since torch treats 0 and 1 as constants."""
    given = job["shapes"][0]["sizes"] if job.get("shapes") else {}
    dynamic = {dim for spec in specs for dim in spec["shape"] if isinstance(dim, str)}
    return {name: 3 if name == "batch" else max(2, given.get(name, 8)) for name in sorted(dynamic)}


# --- convert ----------------------------------------------------------------------------------------------------------


def export(job: Job) -> Notes:
    """Export the author's class with its dynamic dimensions (``torch.export``)."""
    folder = Path(job["input"]["path"])
    inputs, outputs = _module_specs(job)
    trust = job.get("trust") or ()
    if "module" not in trust:
        return {"refused": f"{models.read_reference(folder)['class']} is code; 'trust: [module]' would allow it"}
    module = models.read_module(folder, trust)
    keywords = models.find_keywords(module, [spec["name"] for spec in inputs])
    examples = models.make_examples(inputs, _choose_sizes(job, inputs), job.get("calibration"))
    flat = models.Flat(module, keywords)
    with torch.no_grad():
        result = _call(flat, examples)
    named = models.name_outputs(result)
    if type(result) not in (torch.Tensor, tuple, list, dict):  # another class would have to be imported by the reader
        module, keywords = flat, ()
    try:
        program = _export_dynamic(module, examples, inputs, keywords=keywords)
    except Exception as error:  # noqa: BLE001 - torch raises dozens of classes; the reason is what counts
        return _fail("convert", "torch.export cannot keep the sizes dynamic", error)
    known = outputs if len(outputs) == len(named) else [{"name": name, "shape": []} for name in named]
    names = {"inputs": inputs, "outputs": known}
    described = models.describe_program(program, names)
    models.save_program(program, Path(job["output"]), described["inputs"], described["outputs"])
    return {"inputs": described["inputs"], "outputs": described["outputs"]}


def _export_dynamic(
    module: nn.Module,
    examples: tuple[torch.Tensor, ...],
    specs: Sequence[models.Spec],
    *,
    keywords: Sequence[str] = (),
    bounds: Mapping[str, dict[str, int]] | None = None,
) -> torch.export.ExportedProgram:
    """Export with one ``Dim`` for each named dimension."""
    named = sorted({dim for spec in specs for dim in spec["shape"] if isinstance(dim, str)})
    dims = {name: torch.export.Dim(name, **(bounds or {}).get(name, {})) for name in named}
    axes = [{axis: dims[dim] for axis, dim in enumerate(spec["shape"]) if isinstance(dim, str)} for spec in specs]
    with torch.no_grad():
        if keywords:
            by_name = dict(zip(keywords, axes, strict=True))
            return torch.export.export(module, (), dict(zip(keywords, examples, strict=True)), dynamic_shapes=by_name)
        variadic = isinstance(module, models.Flat)
        return torch.export.export(module, examples, dynamic_shapes=(tuple(axes),) if variadic else tuple(axes))


def to_onnx(job: Job) -> Notes:
    """Write an exported program as ONNX by the dynamo exporter; a PT2E program becomes a QDQ model."""
    import onnx  # noqa: PLC0415 - only this step needs it

    program, described = _read(job)
    target = Path(job["output"]) / "model.onnx"
    size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    torch.onnx.export(
        program,
        f=target,
        dynamo=True,
        input_names=[spec["name"] for spec in described["inputs"]],
        output_names=[spec["name"] for spec in described["outputs"]],
        opset_version=job["options"].get("opset", 20),
        external_data=size > _LARGEST_ONNX,
        verbose=False,
    )
    model = onnx.load(target, load_external_data=False)
    _clean_onnx(model, described)
    onnx.save(model, target)
    written = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}  # requests are not always met
    return {"outputs": described["outputs"], "metadata": {"opset": written["ai.onnx"], "ir_version": model.ir_version}}


def _clean_onnx(model: Any, described: Notes) -> None:
    """Name dynamic dimensions as the specs do; drop the author's paths, and shapes that ORT's quantizers choke on."""
    values = [*model.graph.input, *model.graph.output]
    for value, spec in zip(values, [*described["inputs"], *described["outputs"]], strict=True):
        for dim, name in zip(value.type.tensor_type.shape.dim, spec["shape"], strict=True):
            if isinstance(name, str):
                dim.dim_param = name
    del model.graph.value_info[:]
    for item in [model, model.graph, *values, *model.graph.node, *model.graph.initializer, *model.functions]:
        del item.metadata_props[:]
        item.doc_string = ""


# --- compress ---------------------------------------------------------------------------------------------------------


def quantize(job: Job) -> Notes:
    """Quantize an exported program to int8 with PT2E and the quantizer of Inductor's x86 kernels."""
    path = Path(job["input"]["path"]) / "model.pt2"
    if archive.is_quantized(path):
        return {"nothing_to_do": "the program is quantized already"}
    program, described = _read(job)
    models.import_torchao()
    pt2e = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    x86 = importlib.import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    options = job["options"]
    quantizer = x86.X86InductorQuantizer()
    config = x86.get_default_x86_inductor_quantization_config(reduce_range=options.get("reduce_range", False))
    quantizer.set_global(config)
    flat = models.flatten_program(program)
    prepared = pt2e.prepare_pt2e(flat.model, quantizer)
    inputs = described["inputs"]
    with torch.no_grad():
        for tensors in _batches(job, inputs):
            _call(models.Flat(prepared, flat.keywords), tensors)
    converted = pt2e.convert_pt2e(prepared)
    if not any("quantized_decomposed" in str(node.target) for node in converted.graph.nodes):
        return {"refused": "the quantizer found no operator that it could quantize"}
    examples = models.make_examples(inputs, _choose_sizes(job, inputs), job["calibration"])
    bounds = _find_bounds(program, inputs)
    quantized = _export_dynamic(converted, examples, inputs, keywords=flat.keywords, bounds=bounds)
    models.save_program(quantized, Path(job["output"]), inputs, described["outputs"])
    return {"outputs": described["outputs"], "metadata": {"quantization": "pt2e-x86-int8"}}


def _batches(job: Job, specs: Sequence[models.Spec]) -> list[list[torch.Tensor]]:
    """Return calibration rows in the batches of the recipe's largest shape."""
    rows = np.load(job["calibration"])
    count = min(len(rows[specs[0]["name"]]), job["options"].get("samples", 256))
    size = specs[0]["shape"][0] if isinstance(specs[0]["shape"][0], int) else min(64, count)
    return [
        [torch.from_numpy(rows[spec["name"]][start : start + size].astype(spec["dtype"])) for spec in specs]
        for start in range(0, count - size + 1, size)
    ]


def _find_bounds(program: torch.export.ExportedProgram, specs: Sequence[models.Spec]) -> dict[str, dict[str, int]]:
    """Return the bounds of each named dimension that the program itself states, as arguments of ``Dim``."""
    nodes = {node.name: node for node in program.graph.nodes}
    limits = {str(symbol): limit for symbol, limit in program.range_constraints.items()}
    bounds: dict[str, dict[str, int]] = {}
    for name, spec in zip(program.graph_signature.user_inputs, specs, strict=True):
        for size, dim in zip(nodes[str(name)].meta["val"].shape, spec["shape"], strict=True):
            limit = limits.get(str(size))
            if isinstance(dim, str) and limit is not None:
                bounds[dim] = {"min": int(limit.lower)} if limit.lower > 1 else {}
                if limit.upper.is_Integer:
                    bounds[dim]["max"] = int(limit.upper)
    return bounds


# --- compile ----------------------------------------------------------------------------------------------------------


def copy(job: Job) -> Notes:
    """Copy the files: what is compiled is made when the model is loaded, by the run options."""
    if job["input"]["format"] == "pytorch-module" and "module" not in (job.get("trust") or ()):
        return {"refused": "the class is code; 'trust: [module]' would allow it"}
    manifest = shutil.ignore_patterns("artifact.json")  # the host writes the new artifact's own
    shutil.copytree(job["input"]["path"], job["output"], dirs_exist_ok=True, ignore=manifest)
    return {}


def trace(job: Job) -> Notes:
    """Trace a model into frozen TorchScript and check it at another batch size."""
    flat, inputs, outputs = _open_flat(job)
    if isinstance(flat, str):
        return {"refused": flat}
    sizes = _choose_sizes(job, inputs)
    examples = models.make_examples(inputs, sizes, job.get("calibration"))
    others = models.make_examples(inputs, {**sizes, "batch": 5}, None)
    with torch.no_grad():
        script = torch.jit.freeze(torch.jit.trace(flat, examples, check_trace=False))
        try:
            pairs = zip(script(*others), flat(*others), strict=True)
            same = all(a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)
        except RuntimeError as error:
            return _fail("compile", "the traced model takes no other batch size", error)
    if not same:
        return _fail("numerics", "the traced model answers differently at another batch size: it branches on its input")
    names = json.dumps({"inputs": inputs, "outputs": outputs})
    torch.jit.save(script, Path(job["output"]) / "model.ts", _extra_files={archive.NAMES_FILE: names})
    return {"outputs": outputs}


def _open_flat(job: Job) -> tuple[models.Flat | str, list[models.Spec], list[models.Spec]]:
    """Return a flat model of either format with its specs, or the reason why not."""
    if job["input"]["format"] == "pytorch":
        program, described = _read(job)
        return models.flatten_program(program), described["inputs"], described["outputs"]
    trust = job.get("trust") or ()
    if "module" not in trust:
        return "the class is code; 'trust: [module]' would allow it", [], []
    inputs, _ = _module_specs(job)
    module = models.read_module(Path(job["input"]["path"]), trust)
    flat = models.Flat(module, models.find_keywords(module, [spec["name"] for spec in inputs]))
    return flat, inputs, job["input"].get("outputs") or _describe_module(job, Path(job["input"]["path"]))["outputs"]


def compile_ahead(job: Job) -> Notes:
    """Compile an exported program with AOTInductor: one package, with folded constants, for each recipe shape.

    Always static: it is faster, and a convolution quantized by PT2E and compiled with freezing and a *dynamic* batch
    is silently wrong (torch 2.13).
    """
    program, described = _read(job)
    half = job["adaptor"].endswith("bf16")
    if half and archive.is_quantized(Path(job["input"]["path"]) / "model.pt2"):
        return {"refused": "the program is quantized already"}
    inputs, outputs = described["inputs"], described["outputs"]
    shapes = [shape for shape in job["shapes"] if _serves(inputs, shape["sizes"])]
    if not shapes:
        return {"refused": f"the model is fixed to {inputs[0]['shape']}, which is none of the recipe's shapes"}
    flat: nn.Module = models.flatten_program(program)
    if half:
        flat = HalfPrecision(flat, [spec["dtype"] for spec in outputs])
    torch.set_num_threads(job["threads"])  # the number is written into the compiled loops
    packages = []
    for shape in shapes:
        examples = models.make_examples(inputs, shape["sizes"], job.get("calibration"))
        name = f"model-{shape['name']}.pt2"
        with torch.no_grad():  # without it, freezing is silently ignored
            static = torch.export.export(flat, examples)
            torch._inductor.aoti_compile_and_package(  # noqa: SLF001 - there is no public name
                static, package_path=str(Path(job["output"]) / name), inductor_configs={"freezing": True}
            )
        packages.append({"file": name, "shapes": [list(example.shape) for example in examples]})
    cpu = torch.backends.cpu.get_cpu_capability()
    index = {"cpu": cpu, "inputs": inputs, "outputs": outputs, "packages": packages}
    (Path(job["output"]) / "index.json").write_text(json.dumps(index, indent=2))
    return {"outputs": outputs, "static_shapes": [shape["name"] for shape in shapes]}


def _serves(specs: Sequence[models.Spec], sizes: Mapping[str, int]) -> bool:
    """Whether a model whose first dimension is fixed has the batch size of a shape."""
    return all(spec["shape"][0] in ("batch", sizes["batch"]) for spec in specs if spec["shape"])


class HalfPrecision(nn.Module):  # type: ignore[misc]
    """A model that computes in bfloat16 and keeps the types of its inputs and outputs."""

    def __init__(self, model: nn.Module, dtypes: Sequence[str]) -> None:
        super().__init__()
        self.model = model.to(torch.bfloat16)
        self.dtypes = [getattr(torch, dtype) for dtype in dtypes]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Cast, call, cast back."""
        values = self.model(*(t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors))
        return tuple(value.to(dtype) for value, dtype in zip(values, self.dtypes, strict=True))


# --- shared -----------------------------------------------------------------------------------------------------------


def _read(job: Job) -> tuple[torch.export.ExportedProgram, Notes]:
    """Return the input's program, described with the names that the host knows it by."""
    path = Path(job["input"]["path"]) / "model.pt2"
    program = models.read_program(path, job.get("trust") or ())
    names = {key: job["input"].get(key) or (archive.read_names(path) or {}).get(key) for key in ("inputs", "outputs")}
    return program, models.describe_program(program, names)


def _fail(failure: str, reason: str, error: Exception | None = None) -> Notes:
    detail = f": {str(error).strip().splitlines()[0][:300]}" if error and str(error).strip() else ""
    return {"failed": {"class": failure, "reason": reason + detail}}


STEPS: dict[str, Callable[[Job], Notes]] = {
    "pytorch.export": export,
    "pytorch.onnx": to_onnx,
    "pytorch.pt2e-int8": quantize,
    "pytorch.torchscript": trace,
    "pytorch.compile": copy,
    "pytorch.compile-exported": copy,
    "pytorch.aoti": compile_ahead,
    "pytorch.aoti-bf16": compile_ahead,
}
