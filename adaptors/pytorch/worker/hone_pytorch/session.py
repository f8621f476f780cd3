"""Run models of PyTorch's formats on NumPy arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from hone_runtime.worker.imports import require_cpu

from . import compilers, jobs, models
from .threads import set_threads

Array = np.ndarray[Any, Any]

_MOST_SIGNATURES = 4096  # number of input signatures that are cached; beyond these, inputs are checked at each call


class PlainProgram:
    """An exported program as an ordinary module, without the overhead that only the archive format adds.

    ``ExportedProgram.module()`` checks its inputs and walks through trees of arguments at each call, which slows a
    Linear from 9 to 60 µs. Here the inputs are checked once for each signature (shapes and types). Then only the graph
    is called (``module``), with positional tensors in the order of its inputs.
    """

    def __init__(self, flat: models.Flat) -> None:
        self._guarded, self._keywords = flat.model, flat.keywords
        self._dtypes = [node.meta["val"].dtype for node in self._guarded.graph.find_nodes(op="placeholder")]
        self.module = _make_plain(self._guarded)
        self._known: set[tuple[tuple[torch.Size, torch.dtype], ...]] = set()

    def prepare(self, tensors: Sequence[torch.Tensor]) -> Callable[..., Any]:
        """Check inputs, and return the function to call with them: the graph's own, without any wrapper.

        Raises:
            Exception: As raised by the program itself, such as AssertionError for a size that its guards exclude.
            TypeError: An input has another type of numbers than the program was exported with.
        """
        signature = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if signature not in self._known:
            for number, (tensor, dtype) in enumerate(zip(tensors, self._dtypes, strict=True)):
                if tensor.dtype is not dtype:
                    raise TypeError(f"input {number} is {tensor.dtype}; the program was exported with {dtype}")
            models.call(self._check, tensors, self._keywords)
            if len(self._known) < _MOST_SIGNATURES:
                self._known.add(signature)
        forward: Callable[..., Any] = self.module.forward
        return forward

    def _check(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> None:
        """Check inputs like torch's hook before each call, and with the guards of programs that contain some."""
        from torch.export import _unlift  # takes a second, and packages and TorchScript do not need it

        _unlift._check_input_constraints_pre_hook(self._guarded, args, kwargs)  # noqa: SLF001 - there is no public name
        if hasattr(self._guarded, "_guards_fn"):
            self._guarded._guards_fn(*args, *kwargs.values())  # noqa: SLF001 - a submodule that torch names so

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Call the program."""
        return self.prepare(tensors)(*tensors)


def _make_plain(guarded: fx.GraphModule) -> fx.GraphModule:
    """Return the result of ``ExportedProgram.module`` as a module that only computes.

    The operators and their order are unchanged, so the results are equal to the bit. Removed are the guards, the hooks,
    the trees of arguments, and the type checks that follow from the input types. Tensors become attributes of the
    module itself, so that Python finds them without calling ``nn.Module.__getattr__`` for each part of a path. The
    result takes over the graph of ``guarded`` and shares its tensors: a change of a buffer is visible in both.
    """
    graph = guarded.graph
    for node in [*graph.nodes]:
        if node.target == "_guards_fn" or _checks_types_only(node):
            graph.erase_node(node)
    output = graph.output_node()
    result = pytree.tree_unflatten(output.args[0], guarded._out_spec)  # noqa: SLF001 - torch stores it nowhere else
    if type(result) in (fx.Node, tuple, list, dict):  # torch builds results of other classes by their own code
        output.args = (result,)
        graph.set_codegen(fx.graph.CodeGen())
    names: dict[str, str] = {}
    for node in graph.find_nodes(op="get_attr"):
        node.target = names.setdefault(node.target, f"state_{len(names)}")
    module = fx.GraphModule({}, fx.Graph())
    for target, name in names.items():
        module.__dict__[name] = attrgetter(target)(guarded)  # setattr would register it
    module.graph = graph
    return module


def _checks_types_only(node: fx.Node) -> bool:
    """Whether a node only checks the type of an intermediate value, which follows from the checked input types."""
    if node.target is not torch.ops.aten._assert_tensor_metadata.default:  # noqa: SLF001 - an operator's name
        return False
    sizes = (*node.args[1:3], node.kwargs.get("size"), node.kwargs.get("stride"))
    return all(value is None for value in sizes)


class Session:
    """A loaded model, with its inputs' names in the order of its arguments, and the names of its results."""

    def __init__(
        self,
        call: Callable[..., Any],
        artifact: dict[str, Any],
        keywords: Sequence[str] = (),
        *,
        threads: int,
    ) -> None:
        self.inputs, self.outputs = ([spec["name"] for spec in artifact[side]] for side in ("inputs", "outputs"))
        self._call, self._keywords, self._threads = call, keywords, threads

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Run the model as its author would: arrays to tensors, one call, tensors to arrays."""
        set_threads(self._threads)
        tensors = [torch.from_numpy(feeds[name]) for name in self.inputs]
        with torch.inference_mode():
            value = models.call(self._call, tensors, self._keywords) if self._keywords else self._call(*tensors)
        if isinstance(value, torch.Tensor):
            return {self.outputs[0]: value.numpy()}
        named = models.name_outputs(value)
        return {name: tensor.numpy() for name, tensor in zip(self.outputs, named.values(), strict=True)}


class EagerSession(Session):
    """A session whose operators are all dispatched one by one, and can be counted."""

    def count_operators(self, feeds: dict[str, Array]) -> dict[str, dict[str, int]]:
        """Return how many operators are dispatched in one call with these feeds, by precision and kind."""
        from . import operators

        return operators.count(lambda: self.run(feeds))


class AuthorsSession(EagerSession):
    """A source model, timed as its author calls it: with tensors, and in inference mode."""

    def prepare(self, feeds: dict[str, Array]) -> Callable[[], Any]:
        """Return one call of the model on these arrays, without the conversion of arrays."""
        tensors = [torch.from_numpy(feeds[name]) for name in self.inputs]
        count = len(tensors) - len(self._keywords)
        args, kwargs = tensors[:count], dict(zip(self._keywords, tensors[count:], strict=True))
        call = self._call.prepare(tensors) if isinstance(self._call, PlainProgram) else self._call

        def run() -> Any:
            with torch.inference_mode():
                return call(*args, **kwargs)

        return run


class StaticPackages:
    """AOTInductor packages, one for each shape of the recipe.

    They are opened by the C++ loader itself. ``aoti_load_package`` imports all of Inductor and compiles three programs
    with a C++ compiler, so that the first start took 14 seconds instead of two. The kind of CPU, which it checks with
    these programs, is checked here.

    Raises:
        RuntimeError: The packages were compiled for another kind of CPU.
    """

    def __init__(self, folder: Path, *, threads: int) -> None:
        self._threads = threads
        index = json.loads((folder / "index.json").read_text())
        here = torch.backends.cpu.get_cpu_capability()
        if index["cpu"] != here:
            raise RuntimeError(f"compiled for a CPU with {index['cpu']}; this one has {here}")
        self.inputs, self.outputs = ([spec["name"] for spec in index[side]] for side in ("inputs", "outputs"))
        open_package = torch._C._aoti.AOTIModelPackageLoader  # noqa: SLF001 - there is no public name
        self._loaders = {  # each has one model and one runner; torch's binding accepts no keywords
            tuple(map(tuple, each["shapes"])): open_package(str(folder / each["file"]), "model", False, 1, -1)  # noqa: FBT003
            for each in index["packages"]
        }

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Run the package of exactly these shapes.

        Raises:
            ValueError: No package was compiled for them. A package itself would return the wrong number of rows.
        """
        set_threads(self._threads)
        shapes = tuple(feeds[name].shape for name in self.inputs)
        loader = self._loaders.get(shapes)
        if loader is None:
            raise ValueError(f"compiled for the shapes {sorted(self._loaders)} and fed {shapes}")
        values = loader.boxed_run([torch.from_numpy(feeds[name]) for name in self.inputs])
        return {name: value.numpy() for name, value in zip(self.outputs, values, strict=True)}


def open_session(job: models.Job) -> Session | StaticPackages:
    """Return a session for ``job["input"]``; if it is compiled at each start, it is warmed up at every known shape.

    Raises:
        ValueError: It is for another device than the CPU.
    """
    require_cpu(job)
    artifact, options = job["input"], job["input"].get("run_options") or {}
    folder, form, compiled = Path(artifact["path"]), artifact["format"], options.get("compile")
    threads = job["threads"]
    set_threads(threads)
    if form == "aot-inductor":
        return StaticPackages(folder, threads=threads)
    if form == "torchscript":
        return EagerSession(torch.jit.load(folder / "model.ts", map_location="cpu"), artifact, threads=threads)
    if form in {"pytorch-module", "torchscript-module", "transformers"}:
        flat = jobs.open_module(job)
    else:
        flat = models.flatten_program(models.read_program(folder / "model.pt2", job["trust"]))
        if not compiled:
            return AuthorsSession(PlainProgram(flat), artifact, threads=threads)
    if not compiled:
        return AuthorsSession(flat.model, artifact, flat.keywords, threads=threads)
    compilers.skip_vector_check()
    call = torch.compile(flat.model, mode=options.get("mode", "default"), dynamic=options.get("dynamic"))
    session = Session(call, artifact, flat.keywords, threads=threads)
    for shape in job["shapes"]:
        tensors = jobs.make_examples(artifact["inputs"], shape["sizes"])
        session.run({name: tensor.numpy() for name, tensor in zip(session.inputs, tensors, strict=True)})
    return session
