"""Open models of PyTorch's formats, and describe their inputs and outputs.

The rest of this worker uses a model as a *flat* module. Its inputs are positional tensors in the order of the inputs'
specs. Its output is a tuple of tensors in the order of the outputs' specs.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hone_runtime.worker.imports import set_variables

from . import archive

Job = dict[str, Any]
Notes = dict[str, Any]
Spec = dict[str, Any]

ADVICE = "return a tensor, or one tuple, list or dictionary of tensors (a small module around the model can do that)"


class Flat(nn.Module):  # type: ignore[misc]  # torch has no types here
    """A model from positional tensors to a tuple of tensors; the last inputs are passed by name: ``keywords``."""

    def __init__(self, model: nn.Module, keywords: Sequence[str] = ()) -> None:
        super().__init__()
        self.model, self.keywords = model, tuple(keywords)
        self.training = False  # not by ``eval``, which an exported program inside does not have

    def call(self, *tensors: torch.Tensor) -> Any:
        """Call the model, and return its result unchanged."""
        return call(self.model, tensors, self.keywords)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model, and return the tensors of its result."""
        return tuple(name_outputs(self.call(*tensors)).values())


def call(model: Callable[..., Any], tensors: Sequence[torch.Tensor], keywords: Sequence[str]) -> Any:
    """Call a function with tensors, the last of them by these names."""
    count = len(tensors) - len(keywords)
    return model(*tensors[:count], **dict(zip(keywords, tensors[count:], strict=True)))


def find_refusal(value: Any) -> str | None:
    """Return why a result is refused, or None.

    Tensors may be nested one level deep: the specs of an artifact are a flat list, like the results of most runtimes.
    """
    if isinstance(value, torch.Tensor):
        return None
    container = isinstance(value, Mapping | tuple | list)
    if not container or not value:
        return f"the model returns {'nothing in its ' if container else ''}{_name(value)}; {ADVICE}"
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        if not isinstance(key, str | int):
            return f"the model returns a dictionary with the key {key!r}, which is neither text nor a number"
        absent = item is None and isinstance(value, Mapping)
        if not absent and not isinstance(item, torch.Tensor):
            return f"the model returns a {_name(value)} whose item {key!r} is {_name(item)}, no tensor; {ADVICE}"
    if isinstance(value, Mapping) and all(item is None for item in value.values()):
        return f"the model returns a {_name(value)} of None, without a tensor; {ADVICE}"
    return None


def describe_structure(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the structure of a result, whose tensors have these names in order, as a note; empty for a tensor.

    It is stored in the source artifact, so that ``kedro_hone.load`` can restore it. ``structure`` has ``kind``
    (``tuple``, ``list`` or ``dict``), and ``items``: each tensor's name, in a dictionary preceded by its key; None
    values remain None.
    """
    if isinstance(value, torch.Tensor):
        return {}
    if not isinstance(value, Mapping):
        return {"structure": {"kind": "list" if isinstance(value, list) else "tuple", "items": list(names)}}
    given = iter(names)
    pairs = [[key, None if item is None else next(given)] for key, item in value.items()]
    return {"structure": {"kind": "dict", "items": pairs}}


def list_operators(model: nn.Module | torch.export.ExportedProgram) -> list[str]:
    """Return the operators and modules that a model uses.

    These are the classes of its innermost modules, those of PyTorch's quantization with their package, and the
    operators of a script or of an exported program.
    """
    if not isinstance(model, nn.Module):
        called = (node.target for node in model.graph.nodes if node.op == "call_function")
        return sorted({str(getattr(target, "overloadpacket", target)) for target in called})
    if isinstance(model, torch.jit.ScriptModule):
        return sorted(_list_kinds(model))
    names = set[str]()
    for path, one in model.named_modules():
        if isinstance(one, torch.jit.ScriptModule):
            names |= _list_kinds(one)
        elif type(one).__module__.startswith("torch.ao.") and not path.endswith("weight_fake_quant"):
            names.add(_name_quantized(one))
        elif not next(one.children(), None):
            names.add(type(one).__name__)
    return sorted(names)


def _list_kinds(script: torch.jit.ScriptModule) -> set[str]:
    """Return the operators of a script and of everything it calls; a part without a method ``forward`` has none."""
    try:
        kinds = _walk(script.inlined_graph)
    except RuntimeError:
        return set()
    is_frozen = not hasattr(script, "training")
    if any(kind.endswith("_fp16") for kind in kinds) and not is_frozen:  # it has two branches, and freezing drops one
        with suppress(RuntimeError):  # for example, if the script is in training mode
            return _walk(torch.jit.freeze(script).graph)
    return kinds


def _walk(graph: Any) -> set[str]:
    nodes, kinds = [*graph.nodes()], set[str]()
    while nodes:
        node = nodes.pop()
        nodes += [inner for block in node.blocks() for inner in block.nodes()]
        kinds.add(node.kind())
    return {kind for kind in kinds if not kind.startswith("prim::")}


def _name_quantized(module: nn.Module) -> str:
    """Return a class of PyTorch's quantization with its package; without it if only the weights are fp16."""
    packed = getattr(module, "_packed_params", module)
    kind = type(module)
    if getattr(packed, "dtype", None) is torch.float16:
        return str(kind.__name__)
    return f"{kind.__module__.partition('.modules')[0]}.{kind.__name__}"


def name_outputs(value: Any) -> dict[str, torch.Tensor]:
    """Return a result as tensors by name: with a mapping's own names, else ``output_0`` and so on.

    Raises:
        TypeError: Such a result is not supported.
    """
    if isinstance(value, torch.Tensor):
        return {"output_0": value}
    if refusal := find_refusal(value):
        raise TypeError(refusal)
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items() if item is not None}
    return {f"output_{index}": item for index, item in enumerate(value)}


def _name(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def read_program(path: Path, trust: Sequence[str]) -> torch.export.ExportedProgram:
    """Load a file of ``torch.export.save``; if ``pickle`` is trusted, also one that runs code when it is loaded.

    Raises:
        PermissionError: Loading the file could run code from it.
    """
    source = path if "pickle" in trust else check_archive(path)
    if archive.is_quantized(path):
        importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")  # registers PT2E's operators
    # Makes every torch.load in it refuse pickled code, even if the file requires it.
    with set_variables(**({} if "pickle" in trust else {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"})):
        return torch.export.load(source)


def check_archive(path: Path) -> io.BytesIO:
    """Return an archive of a program with its checked content only.

    Raises:
        PermissionError: Loading the file could run code from it.
    """
    try:
        return archive.copy_checked(path)
    except archive.Threat as threat:
        reason = f"loading {path.name} could run code from it: {threat}; 'trust: [pickle]' would allow it"
        raise PermissionError(reason) from threat


def save_program(program: torch.export.ExportedProgram, folder: Path, specs: Notes) -> None:
    """Write ``model.pt2`` with the tensors' specs, and without example rows or paths of the author's machine."""
    program.example_inputs = None
    for node in program.graph.nodes:
        for name in ("stack_trace", "from_node"):  # the latter has memory addresses, which differ between processes
            node.meta.pop(name, None)
    torch.export.save(program, folder / "model.pt2", extra_files={archive.NAMES_FILE: json.dumps(specs)})


def describe_program(program: torch.export.ExportedProgram, names: Mapping[str, Any]) -> Notes:
    """Return the specs in the graph itself; only names of tensors and dimensions come from ``names``.

    A dynamic first dimension is called ``batch``, others ``size_1``, ``size_2`` …, unless ``names`` has better ones.
    Each symbol has one name in the whole program.
    """
    symbols: dict[str, str] = {}
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}

    def describe(value: Any, known: Spec) -> Spec:
        shape: list[int | str] = []
        for axis, size in enumerate(value.shape):
            hint = known["shape"][axis] if axis < len(known["shape"]) else None
            fallback = "batch" if axis == 0 and "batch" not in symbols.values() else f"size_{len(symbols)}"
            name = hint if isinstance(hint, str) else fallback
            shape.append(size if isinstance(size, int) else symbols.setdefault(str(size), name))
        return {"name": known["name"], "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}

    specs = {}
    for side in ("inputs", "outputs"):
        tensors = [one for one in getattr(program.graph_signature, f"user_{side}") if one is not None]
        known = names.get(side) or [{"name": str(name), "shape": ()} for name in tensors]
        specs[side] = [describe(values[str(name)], spec) for name, spec in zip(tensors, known, strict=True)]
    return specs


def digest_graph(program: torch.export.ExportedProgram) -> str:
    """Return a digest of the computation: operators, their arguments, and the bytes of weights and constants."""
    order = {node.name: index for index, node in enumerate(program.graph.nodes)}
    digest = hashlib.sha256()
    for node in program.graph.nodes:
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{order[n.name]}")
        digest.update(repr((node.op, str(node.target) if node.op == "call_function" else "", arguments)).encode())
    for tensors in (program.state_dict, program.constants):
        for name, value in sorted(tensors.items()):
            if isinstance(value, torch.Tensor):
                digest.update(name.encode() + str(value.dtype).encode())
                digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return "sha256:" + digest.hexdigest()


def flatten_program(program: torch.export.ExportedProgram) -> Flat:
    """Return an exported program as a flat module.

    Raises:
        TypeError: An argument is not a plain tensor.
    """
    arguments, keywords = program.call_spec.in_spec.children()
    if not all(leaf.is_leaf() for leaf in (*arguments.children(), *keywords.children())):
        raise TypeError("the exported program takes nested arguments; only plain tensors can be fed")
    return Flat(program.module(), keywords.context or ())
