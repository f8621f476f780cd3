"""Open models of PyTorch's formats, and describe their inputs and outputs.

Everything else in this worker sees a model as a *flat* module: positional tensors in the order of the inputs' specs,
a tuple of tensors in the order of the outputs'.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import archive

Spec = dict[str, Any]


class Flat(nn.Module):  # type: ignore[misc]
    """A model with positional tensors in and a tuple of tensors out.

    Attributes:
        model: What is called.
        keywords: The inputs' names when the model takes them by name, else empty.
    """

    def __init__(self, model: nn.Module, keywords: Sequence[str] = ()) -> None:
        super().__init__()
        self.model = model
        self.keywords = tuple(keywords)
        self.train(mode=False)

    def train(self, mode: bool = True) -> Flat:  # noqa: FBT001, FBT002 - torch's signature
        """Set the mode of this wrapper, and leave an exported program inside alone: it has none."""
        self.training = mode
        return self

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model."""
        if self.keywords:
            return tuple(name_outputs(self.model(**dict(zip(self.keywords, tensors, strict=True)))).values())
        return tuple(name_outputs(self.model(*tensors)).values())


def name_outputs(value: Any) -> dict[str, torch.Tensor]:
    """Return a model's result as tensors by name: a mapping's own names, else ``output_0`` and so on.

    Raises:
        TypeError: The result holds something other than tensors.
    """
    if isinstance(value, torch.Tensor):
        return {"output_0": value}
    if isinstance(value, Mapping):
        named = {str(key): item for key, item in value.items() if item is not None}
    elif isinstance(value, tuple | list):
        named = {f"output_{index}": item for index, item in enumerate(value)}
    else:
        raise TypeError(f"the model returns {type(value).__name__}; it must return tensors, or a tuple or dict of them")
    if not all(isinstance(item, torch.Tensor) for item in named.values()):
        raise TypeError("the model returns something other than tensors")
    return named


# --- exported programs ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def weights_only() -> Iterator[None]:
    """Make every ``torch.load`` below refuse pickled code, also where torch asks for it."""
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        else:
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = before


def read_program(path: Path, trust: Sequence[str]) -> torch.export.ExportedProgram:
    """Load an exported program.

    Args:
        path: A file written by ``torch.export.save``.
        trust: ``pickle`` in it allows files that run code when they are loaded.

    Raises:
        PermissionError: Loading the file could run code from it.
    """
    threat = None if "pickle" in trust else archive.find_threat(path)
    if threat:
        raise PermissionError(f"loading {path.name} could run code from it: {threat}; 'trust: [pickle]' would allow it")
    if archive.is_quantized(path):
        import_torchao()
    if "pickle" in trust:
        return torch.export.load(path)
    with weights_only():
        return torch.export.load(path)


def import_torchao() -> None:
    """Register PT2E's operators, which exported programs refer to."""
    os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")  # CUDA libraries, missing on most machines
    importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")


def save_program(program: torch.export.ExportedProgram, folder: Path, inputs: list[Spec], outputs: list[Spec]) -> None:
    """Write ``model.pt2`` with the tensors' names, and without example rows and the paths of the author's machine."""
    program.example_inputs = None
    for node in program.graph.nodes:
        for name in ("stack_trace", "from_node"):  # the latter holds addresses in memory, other ones in each process
            node.meta.pop(name, None)
    names = json.dumps({"inputs": inputs, "outputs": outputs})
    torch.export.save(program, folder / "model.pt2", extra_files={archive.NAMES_FILE: names})


def describe_program(program: torch.export.ExportedProgram, names: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the specs that the graph itself states; only names of tensors and dimensions come from ``names``.

    A dynamic first dimension is called ``batch``, another one ``size_1``, ``size_2`` …, unless ``names`` knows better.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    known_inputs, known_outputs = ((names or {}).get(key) for key in ("inputs", "outputs"))
    symbols: dict[str, str] = {}
    inputs = [
        _describe_value(nodes[str(name)].meta["val"], str(name), index, known_inputs, symbols)
        for index, name in enumerate(program.graph_signature.user_inputs)
    ]
    outputs = [
        _describe_value(nodes[str(name)].meta["val"], f"output_{index}", index, known_outputs, symbols)
        for index, name in enumerate(program.graph_signature.user_outputs)
    ]
    return {"inputs": inputs, "outputs": outputs, "graph": digest_graph(program)}


def _describe_value(value: Any, name: str, index: int, known: list[Spec] | None, symbols: dict[str, str]) -> Spec:
    """Return one spec, naming each new symbol of its shape once for the whole program."""
    spec = known[index] if known and index < len(known) else None
    shape: list[int | str] = []
    for axis, size in enumerate(value.shape):
        if isinstance(size, int):
            shape.append(size)
            continue
        hint = spec["shape"][axis] if spec and axis < len(spec["shape"]) else None
        fallback = "batch" if axis == 0 and "batch" not in symbols.values() else f"size_{len(symbols)}"
        shape.append(symbols.setdefault(str(size), hint if isinstance(hint, str) else fallback))
    return {"name": spec["name"] if spec else name, "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}


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
    """Return an exported program as a flat module.

    Raises:
        TypeError: It takes something other than plain tensors.
    """
    positional, keywords = find_arguments(program)
    if positional and keywords:
        return Flat(_Mixed(program.module(), positional, keywords))
    return Flat(program.module(), keywords)


def find_arguments(program: torch.export.ExportedProgram) -> tuple[int, tuple[str, ...]]:
    """Return how many inputs a program takes by position, and the names of those that follow by name.

    Raises:
        TypeError: It takes something other than plain tensors.
    """
    arguments, keywords = program.call_spec.in_spec.children()
    if not all(leaf.is_leaf() for leaf in (*arguments.children(), *keywords.children())):
        raise TypeError("the exported program takes nested arguments; only plain tensors can be fed")
    return len(arguments.children()), tuple(keywords.context or ())


class _Mixed(nn.Module):  # type: ignore[misc]
    """A program that takes its first tensors by position and the others by name."""

    def __init__(self, model: nn.Module, positional: int, keywords: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.positional, self.keywords = model, positional, keywords

    def forward(self, *tensors: torch.Tensor) -> Any:
        named = dict(zip(self.keywords, tensors[self.positional :], strict=True))
        return self.model(*tensors[: self.positional], **named)


# --- the author's class -----------------------------------------------------------------------------------------------


def read_module(folder: Path, trust: Sequence[str]) -> nn.Module:
    """Build the author's class with its state, in ``eval`` mode.

    Args:
        folder: Holds ``module.json`` and the files that it names.
        trust: Must contain ``module``: the class is code.

    Raises:
        PermissionError: The recipe does not trust the class, or a file is outside the folder.
    """
    reference = read_reference(folder)
    if "module" not in trust:
        raise PermissionError(f"{reference['class']} is code; it runs only when the recipe says 'trust: [module]'")
    module_name, _, class_name = str(reference["class"]).rpartition(":")
    if reference.get("file"):
        from hone_loading import load_file

        source = _inside(folder, reference["file"])
        module = load_file(f"hone_class_{source.stem}", str(source), parts=False)
    else:
        module = importlib.import_module(module_name)
    model: nn.Module = getattr(module, class_name)(**(reference.get("kwargs") or reference.get("arguments") or {}))
    if reference.get("state"):
        model.load_state_dict(_read_state(_inside(folder, reference["state"]), trust))
    return model.eval()


def read_reference(folder: Path) -> dict[str, Any]:
    """Return ``module.json``."""
    reference: dict[str, Any] = json.loads((folder / "module.json").read_text())
    return reference


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PermissionError(f"{name} is outside the model's folder")
    return path


def _read_state(path: Path, trust: Sequence[str]) -> Mapping[str, Any]:
    state: Mapping[str, Any]
    if path.suffix == ".pt2":
        state = read_program(path, trust).state_dict
    elif path.suffix == ".safetensors":
        state = importlib.import_module("safetensors.torch").load_file(path)
    else:
        state = torch.load(path, map_location="cpu", weights_only=True)
    return state


def find_keywords(module: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs' names when the module must be called by name, or nothing when position does.

    Position is how most authors call a model; names are needed when ``forward`` has them in another order or with
    others in between, as models of transformers do.
    """
    parameters = list(inspect.signature(module.forward).parameters)
    positional = parameters[: len(names)] == list(names)
    return () if positional or not set(names) <= set(parameters) else tuple(names)
