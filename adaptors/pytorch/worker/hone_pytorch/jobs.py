"""Open and describe a job's model, and make example tensors for it."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from hone_runtime.worker.imports import load_file
from hone_runtime.worker.pickles import check_code
from hone_runtime.worker.refusal import UnsuitedError

from . import adapters, archive, arguments, description, inputs, models, pretrained, state
from .models import Flat, Job, Notes, Spec

_UNLIMITED = 1 << 30


def describe(job: Job) -> Notes | None:
    """Return the specs of a saved model, or None for a format that is not PyTorch's."""
    try:
        return _describe(job)
    except adapters.UnmergedError as error:
        return {"refused": str(error), "slug": adapters.SLUG}
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited), "slug": unsuited.slug}


def _describe(job: Job) -> Notes | None:
    artifact = job["input"]
    folder = Path(artifact["path"])
    match artifact["format"]:
        case "pytorch":
            return _describe_file(folder / "model.pt2", job["trust"])
        case "pytorch-module" | "torchscript-module":
            return _describe_module(job)
        case "transformers":
            return description.describe(job)
        case "torchscript":
            files = {archive.NAMES_FILE: ""}
            model = torch.jit.load(folder / "model.ts", map_location="cpu", _extra_files=files)
            graph = "sha256:" + hashlib.sha256(str(model.inlined_graph).encode()).hexdigest()
            return {**json.loads(files[archive.NAMES_FILE]), "graph": graph}
        case "aot-inductor":
            index = json.loads((folder / "index.json").read_text())
            return {"inputs": index["inputs"], "outputs": index["outputs"]}
    return None


def _describe_file(path: Path, trust: Sequence[str]) -> Notes:
    """Return the specs of an exported program, and the structure of its result, or why it is refused."""
    try:
        program = models.read_program(path, trust)
    except (RuntimeError, PermissionError):
        unknown = archive.find_result_class(path)
        if unknown is None:
            raise
        return {"refused": f"the program returns {unknown}, a class of its author's; {models.ADVICE}"}
    if refusal := arguments.check(program):
        return {"refused": refusal}
    result = arguments.read_result(program)
    names = archive.read_names(path)
    plain = {"outputs": [{"name": name, "shape": ()} for name in models.name_outputs(result)]}
    described = models.describe_program(program, names or plain)
    shape = models.describe_structure(result, [spec["name"] for spec in described["outputs"]])
    graph = {"graph": models.digest_graph(program), "operators": models.list_operators(program)}
    return {**described, **graph, **shape}


def open_module(job: Job) -> Flat:
    """Build the author's class with its state, from ``module.json``, and return it as a flat model.

    Its inputs are passed by position, as in most code of authors. They are passed by name if ``forward`` has them in
    another order or with others in between, as models of transformers do, or if its parameters are keyword-only.

    Raises:
        PermissionError: The recipe does not trust the class, or a file is outside the folder.
        ValueError: Its inputs are unknown.
    """
    if job["input"]["format"] == "transformers":
        return Flat(pretrained.open_model(job), [spec["name"] for spec in job["input"]["inputs"]])
    folder, names = Path(job["input"]["path"]), [spec["name"] for spec in job["input"]["inputs"]]
    if job["input"]["format"] == "torchscript-module":
        return Flat(_open_script(folder))
    if not names:
        raise ValueError("a class does not say what it takes: the recipe must state its inputs")
    if refusal := find_distrust(job):
        raise PermissionError(refusal)
    reference = json.loads((folder / "module.json").read_text())
    if "pickle" in reference:
        module = _unpickle(folder, reference["pickle"], python=reference.get("python", ""))
    else:
        source, weights = (_inside(folder, reference[name]) for name in ("file", "state"))
        code = load_file(f"hone_class_{source.stem}", str(source), parts=False)
        module = getattr(code, reference["class"].rpartition(":")[2])(**reference["kwargs"])
        state.load_state(module, weights, job["trust"])
    signature = inspect.signature(module.forward).parameters
    parameters, known = [*signature], [name for name in names if name in signature]
    named = [name for name in parameters[: len(names)] if signature[name].kind is inspect.Parameter.KEYWORD_ONLY]
    positional = parameters[: len(names)] == names or len(known) < len(names)
    if positional and any(parameters.index(name) != names.index(name) for name in known):
        mismatch = f"{', '.join(parameters)}, and the inputs are {', '.join(names)}"
        raise ValueError(
            f"the arguments of forward are {mismatch}: name all of them as forward does, or put them in its order"
        )
    return Flat(module.eval(), named if positional else names)


def find_distrust(job: Job) -> str | None:
    """Return why a class or a pickle must not be run, as the recipe does not trust it; None if it does."""
    reference = json.loads(Path(job["input"]["path"], "module.json").read_text())
    needed = "pickle" if "pickle" in reference else "module"
    if needed in job["trust"]:
        return None
    what = "a pickle, which can run code" if needed == "pickle" else "code"
    return f"{reference['class']} is {what}; it runs only when the recipe says 'trust: [{needed}]'"


def _unpickle(folder: Path, name: str, *, python: str) -> nn.Module:
    """Return the module in a pickle; its class may be in the author's code next to it (``code/``).

    Raises:
        UnsuitedError: It contains code of another Python than this one, which is the version of ``python``.
        ValueError: Its class cannot be imported.
        TypeError: It does not contain a module.
    """
    path = _inside(folder, name)
    check_code(path, python)
    sys.path.insert(0, str(folder / "code"))
    try:
        found = torch.load(path, map_location="cpu", weights_only=False)
    except (ImportError, AttributeError) as error:
        why = "log it again with code_paths=[…], so that its author's code comes with it"
        raise ValueError(f"its class cannot be imported ({error}); {why}") from error
    if isinstance(found, torch.jit.ScriptModule):
        raise TypeError("it is TorchScript in a pickle: save it by torch.jit.save(module, 'model.ts')")
    if not isinstance(found, nn.Module):
        raise TypeError(
            f"the pickle holds a {type(found).__name__} and no module; save the module, or its state for the class in "
            "hone.model.module, by safetensors.torch.save_model(model, 'model.safetensors')"
        )
    return found


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PermissionError(f"{name} is outside the model's folder")
    return path


def _open_script(folder: Path) -> torch.jit.ScriptModule:
    module = torch.jit.load(folder / "model.pt", map_location="cpu")
    return module.eval() if hasattr(module, "training") else module  # a frozen module has no mode


def _list_parameters(module: nn.Module) -> list[str]:
    """Return the names of a module's positional parameters."""
    if isinstance(module, torch.jit.ScriptModule):
        return [argument.name for argument in module.forward.schema.arguments[1:]]
    parameters = inspect.signature(module.forward).parameters.values()
    return [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


def _describe_module(job: Job) -> Notes:
    """Run the class, then once more with each dynamic size changed, since a class does not declare its results.

    If the inputs are not declared, those of the exported program with its state are used.
    """
    if not job["input"]["inputs"] and job["input"]["format"] == "torchscript-module":
        parameters = ", ".join(_list_parameters(_open_script(Path(job["input"]["path"]))))
        why = f"TorchScript does not say which types and sizes it takes: its arguments are {parameters}"
        return {"refused": why, "slug": "recipe-invalid"}
    if not job["input"]["inputs"]:
        stated = _describe_state(job)
        if "inputs" not in stated:
            why = "neither a signature nor the recipe says what its class takes, "
            why += f"nor does an exported program: {stated['refused']}"
            return {"refused": why, "slug": "recipe-invalid"}
        fixed = not any(isinstance(dim, str) for spec in stated["inputs"] for dim in spec["shape"])
        warning = (
            "model.pt2 was exported without dynamic_shapes: all sizes are fixed, unless model.inputs states others"
        )
        job = {**job, "input": {**job["input"], "inputs": stated["inputs"]}}
        return {**_describe_module(job), **({"warnings": [warning]} if fixed else {})}
    flat, inputs, known = open_module(job), job["input"]["inputs"], job["input"]["outputs"]  # no outputs at first
    with torch.inference_mode():
        sizes = choose_sizes(job, inputs)
        try:
            result = flat.call(*make_examples(inputs, sizes))
        except Exception:  # a class may raise anything; if it also raises with shared sizes, the fault is its own
            shared = _share_sizes(job, inputs)
            if shared == inputs:
                raise
            inputs, sizes = shared, choose_sizes(job, shared)
            result = flat.call(*make_examples(inputs, sizes))
        if refusal := models.find_refusal(result):
            return {"refused": refusal}
        changed = {name: flat(*make_examples(inputs, {**sizes, name: sizes[name] + 1})) for name in sizes}
    named, outputs = models.name_outputs(result), []
    names = [*named] if isinstance(result, Mapping) or len(known) != len(named) else [spec["name"] for spec in known]
    for index, value in enumerate(named.values()):
        shape: list[int | str] = list(value.shape)
        for dimension, others in changed.items():
            for axis, size in enumerate(others[index].shape):
                shape[axis] = dimension if size != value.shape[axis] else shape[axis]
        outputs.append({"name": names[index], "dtype": str(value.dtype).removeprefix("torch."), "shape": shape})
    inputs = _name_inputs(flat.model, inputs, taken=names)
    specs = {"inputs": inputs, "outputs": outputs, "operators": models.list_operators(flat.model)}
    return {**specs, **models.describe_structure(result, names)}


def _describe_state(job: Job) -> Notes:
    """Return the specs of the exported program that contains a class's state, or why they are unknown."""
    folder = Path(job["input"]["path"])
    reference = json.loads((folder / "module.json").read_text())
    if Path(reference.get("state", "")).suffix != ".pt2":
        return {"refused": "the state is in no such file"}
    return _describe_file(_inside(folder, reference["state"]), job["trust"])


def _share_sizes(job: Job, inputs: list[Spec]) -> list[Spec]:
    """Return the inputs with one size for all dynamic axes but the batch, such as the length of tokens and mask.

    A signature does not show which sizes are equal. The size has its name from the recipe's shapes, if any.
    """
    named = {dim for spec in inputs for dim in spec["shape"] if isinstance(dim, str)} - {"batch"}
    if len(named) < 2:
        return inputs
    requested = {name for shape in job["shapes"] for name in shape["sizes"]} - {"batch"} - named
    name = min(requested) if len(requested) == 1 else min(named)
    return [{**spec, "shape": [name if dim in named else dim for dim in spec["shape"]]} for spec in inputs]


def _name_inputs(module: nn.Module, inputs: list[Spec], *, taken: Sequence[str]) -> list[Spec]:
    """Rename inputs ``input_0``, ``input_1`` … as in ``forward``, unless an output has that name."""
    names = [name for name in _list_parameters(module)[: len(inputs)] if name not in taken]
    if len(names) < len(inputs) or any(spec["name"] != f"input_{index}" for index, spec in enumerate(inputs)):
        return inputs
    return [{**spec, "name": name} for spec, name in zip(inputs, names, strict=True)]


def choose_sizes(job: Job, specs: Sequence[Spec]) -> dict[str, int]:
    """Return example sizes: from the recipe's first shape, and 3 rows, since torch treats 0 and 1 as constants.

    All are different, and within the model's own limits: an export would treat equal ones as the same size.
    """
    given = job["shapes"][0]["sizes"] if job["shapes"] else {}
    dynamic = {dim for spec in specs for dim in spec["shape"] if isinstance(dim, str)}
    limits, sizes = find_limits(job), {"batch": 3}
    for name in sorted(dynamic - {"batch"}):
        size = min(max(2, given.get(name, inputs.SIZES.get(name, 8))), limits.get(name, _UNLIMITED))
        while size in sizes.values():
            size += 1 if size < limits.get(name, _UNLIMITED) else -1
        sizes[name] = size
    return {name: sizes[name] for name in sorted(dynamic)}


def make_model_examples(job: Job, flat: Flat, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
    """Return example tensors for an opened model; with padding if it has a mask."""
    specs = job["input"]["inputs"]
    if job["input"]["format"] != "transformers":
        return make_examples(specs, sizes)
    return tuple(inputs.make_examples(specs, sizes, flat.model, padded=True).values())


def find_limits(job: Job) -> dict[str, int]:
    """Return the largest sizes that the model itself allows, by dimension."""
    return dict(job["input"].get("metadata", {}).get("transformers", {}).get("limits", {}))


def read_program(job: Job) -> tuple[torch.export.ExportedProgram, Notes]:
    """Return the input's program, described with the host's names of its tensors."""
    program = models.read_program(Path(job["input"]["path"]) / "model.pt2", job["trust"])
    return program, models.describe_program(program, job["input"])


def fail(failure: str, reason: str, error: Exception | None = None) -> Notes:
    """Return the notes of an expected failure: its class, and the reason with the error, which the host shortens."""
    message = str(error).strip()[:4000] if error else ""
    return {"failed": {"class": failure, "reason": f"{reason}:\n{message}" if message else reason}}


def make_examples(specs: Sequence[Spec], sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
    """Return one tensor for each input, for these dynamic sizes: random numbers, or ones for integers."""
    generator, examples = torch.Generator().manual_seed(0), []
    for spec in specs:
        shape = [dim if isinstance(dim, int) else sizes[dim] for dim in spec["shape"]]
        dtype = getattr(torch, spec["dtype"])
        drawn = torch.rand(shape, generator=generator) if dtype.is_floating_point else torch.ones(shape)
        examples.append(drawn.to(dtype))
    return tuple(examples)
