"""Open models of PyTorch's formats, and describe their inputs and outputs.

Everything else in this worker sees a model as a *flat* module: positional tensors in the order of the inputs' specs,
a tuple of tensors in the order of the outputs'.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from hone_loading import load_file, set_variables
from torch import nn

from . import archive, structure

Job = dict[str, Any]
Notes = dict[str, Any]
Spec = dict[str, Any]


class Flat(nn.Module):  # type: ignore[misc]  # torch has no types here
    """A model with positional tensors in and a tuple of tensors out.

    Attributes:
        model: What is called.
        keywords: The names of the last inputs, as many as the model takes by name; the others go by position.
    """

    def __init__(self, model: nn.Module, keywords: Sequence[str] = ()) -> None:
        super().__init__()
        self.model, self.keywords = model, tuple(keywords)
        self.training = False  # and not by ``eval``, which an exported program inside does not have

    def call(self, *tensors: torch.Tensor) -> Any:
        """Call the model, for its result as it is."""
        return call(self.model, tensors, self.keywords)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model, for the tensors of its result."""
        return tuple(structure.name_outputs(self.call(*tensors)).values())


def call(model: Callable[..., Any], tensors: Sequence[torch.Tensor], keywords: Sequence[str]) -> Any:
    """Call something with tensors, the last of them by these names."""
    count = len(tensors) - len(keywords)
    return model(*tensors[:count], **dict(zip(keywords, tensors[count:], strict=True)))


def read_program(path: Path, trust: Sequence[str]) -> torch.export.ExportedProgram:
    """Load a file that ``torch.export.save`` wrote; with ``pickle`` trusted, also one that runs code when it is loaded.

    Raises:
        PermissionError: Loading the file could run code from it.
    """
    threat = None if "pickle" in trust else archive.find_threat(path)
    if threat:
        raise PermissionError(f"loading {path.name} could run code from it: {threat}; 'trust: [pickle]' would allow it")
    if archive.is_quantized(path):
        importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")  # registers PT2E's operators
    # Makes every torch.load in it refuse pickled code, if asked for it too.
    with set_variables(**({} if "pickle" in trust else {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"})):
        return torch.export.load(path)


def save_program(program: torch.export.ExportedProgram, folder: Path, inputs: list[Spec], outputs: list[Spec]) -> None:
    """Write ``model.pt2`` with the tensors' names, and without example rows and the paths of the author's machine."""
    program.example_inputs = None
    for node in program.graph.nodes:
        for name in ("stack_trace", "from_node"):  # the latter holds addresses in memory, other ones in each process
            node.meta.pop(name, None)
    names = json.dumps({"inputs": inputs, "outputs": outputs})
    torch.export.save(program, folder / "model.pt2", extra_files={archive.NAMES_FILE: names})


def describe_program(program: torch.export.ExportedProgram, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specs that the graph itself states; only names of tensors and dimensions come from ``names``.

    A dynamic first dimension is called ``batch``, another one ``size_1``, ``size_2`` …, unless ``names`` knows better:
    each symbol has one name in the whole program.
    """
    signature, symbols = program.graph_signature, dict[str, str]()
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}

    def describe(value: Any, known: Spec) -> Spec:
        shape: list[int | str] = []
        for axis, size in enumerate(value.shape):
            hint = known["shape"][axis] if axis < len(known["shape"]) else None
            fallback = "batch" if axis == 0 and "batch" not in symbols.values() else f"size_{len(symbols)}"
            name = hint if isinstance(hint, str) else fallback
            shape.append(size if isinstance(size, int) else symbols.setdefault(str(size), name))
        return {"name": known["name"], "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}

    def describe_all(side: str, tensors: Sequence[Any]) -> list[Spec]:
        known = names.get(side) or [{"name": str(name), "shape": ()} for name in tensors]
        return [describe(values[str(name)], spec) for name, spec in zip(tensors, known, strict=True)]

    inputs, outputs = describe_all("inputs", signature.user_inputs), describe_all("outputs", signature.user_outputs)
    return {"inputs": inputs, "outputs": outputs, "graph": digest_graph(program)}


def digest_graph(program: torch.export.ExportedProgram) -> str:
    """Return a digest of what is computed: operators, their arguments, and the bytes of weights and constants."""
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
    """Return an exported program as a flat module; it must take plain tensors, as ``find_program_keywords`` says."""
    return Flat(program.module(), find_program_keywords(program))


def find_program_keywords(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """Return the names of the inputs that a program takes by name, which follow those that it takes by position.

    Raises:
        TypeError: It takes something other than plain tensors.
    """
    arguments, keywords = program.call_spec.in_spec.children()
    if not all(leaf.is_leaf() for leaf in (*arguments.children(), *keywords.children())):
        raise TypeError("the exported program takes nested arguments; only plain tensors can be fed")
    return tuple(keywords.context or ())


def read_module(folder: Path, trust: Sequence[str]) -> nn.Module:
    """Build the author's class with its state, in ``eval`` mode, as ``module.json`` in the folder describes it.

    Raises:
        PermissionError: The recipe does not trust the class, or a file is outside the folder.
    """
    reference = read_reference(folder)
    if "module" not in trust:
        raise PermissionError(f"{reference['class']} is code; it runs only when the recipe says 'trust: [module]'")
    source, state = (_inside(folder, reference[name]) for name in ("file", "state"))
    module = load_file(f"hone_class_{source.stem}", str(source), parts=False)
    model: nn.Module = getattr(module, reference["class"].rpartition(":")[2])(**reference["kwargs"])
    model.load_state_dict(read_program(state, trust).state_dict)
    return model.eval()


def read_reference(folder: Path) -> dict[str, Any]:
    """Return ``module.json``."""
    return dict(json.loads((folder / "module.json").read_text()))


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PermissionError(f"{name} is outside the model's folder")
    return path


def name_inputs(module: nn.Module, inputs: list[Spec], *, taken: Sequence[str]) -> list[Spec]:
    """Return the specs with the names of ``forward``'s arguments where the signature names none of the inputs.

    Such inputs are ``input_0``, ``input_1`` and so on. The names of their dimensions stay, and so do all names where an
    output would have the same one (``taken``).
    """
    parameters = [*inspect.signature(module.forward).parameters.values()][: len(inputs)]
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD and each.name not in taken]
    if len(names) < len(inputs) or any(spec["name"] != f"input_{index}" for index, spec in enumerate(inputs)):
        return inputs
    return [{**spec, "name": name} for spec, name in zip(inputs, names, strict=True)]


def find_keywords(module: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs' names when the module must be called by name, or nothing when position does.

    Position is how most authors call a model; names are needed when ``forward`` has them in another order or with
    others in between, as models of transformers do.
    """
    parameters = list(inspect.signature(module.forward).parameters)
    positional = parameters[: len(names)] == list(names)
    return () if positional or not set(names) <= set(parameters) else tuple(names)
