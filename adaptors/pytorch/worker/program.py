"""An exported program as an ordinary module, without the overhead that only the archive format adds.

``ExportedProgram.module()`` checks its inputs and walks through trees of arguments at each call, which takes a Linear
from 9 to 60 µs. Here the inputs are checked once for each signature, and what is called is the graph alone.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen
from torch.utils._pytree import TreeSpec

from . import models

Signature = tuple[tuple[torch.Size, torch.dtype], ...]

_MOST_SIGNATURES = 4096  # of inputs that are remembered; beyond these, inputs are checked at each call
_GUARDS = "_guards_fn"


class PlainProgram:
    """A program that is called with positional tensors, in the order of its inputs.

    Inputs of a new signature (shapes and types) are checked first, as the program itself does, with their types.

    Attributes:
        module: The graph with the program's own parameters, buffers and constants as attributes; it checks nothing.
    """

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._keywords = models.find_program_keywords(program)
        guarded = program.module()
        self._dtypes = [node.meta["val"].dtype for node in guarded.graph.find_nodes(op="placeholder")]
        self.module = _make_plain(guarded)
        self._checker = _keep_checks(guarded)
        self._known: set[Signature] = set()

    def prepare(self, tensors: Sequence[torch.Tensor]) -> Callable[..., Any]:
        """Check inputs, and return the function to be called with them: the graph's own, with nothing around it.

        Raises:
            Exception: What the program itself raises, such as AssertionError for a size that its guards exclude.
            TypeError: An input has another type of numbers than the program was exported with.
        """
        signature = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if signature not in self._known:
            for number, (tensor, dtype) in enumerate(zip(tensors, self._dtypes, strict=True)):
                if tensor.dtype is not dtype:
                    raise TypeError(f"input {number} is {tensor.dtype}; the program was exported with {dtype}")
            models.call(self._checker, tensors, self._keywords)
            if len(self._known) < _MOST_SIGNATURES:
                self._known.add(signature)
        forward: Callable[..., Any] = self.module.forward
        return forward

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Call the program."""
        return self.prepare(tensors)(*tensors)


def _make_plain(guarded: fx.GraphModule) -> fx.GraphModule:
    """Return the graph of an exported program as a module that computes and does nothing else.

    The operators and their order stay, so the results are the same to the bit. Removed are the guards, the hooks, the
    trees of arguments, and the checks of types that follow from the types of the inputs. Tensors become attributes of
    the module itself, where Python finds them without asking ``nn.Module.__getattr__`` for each part of a path.

    ``guarded``, which ``ExportedProgram.module`` returned, has plain tensors as inputs and is not changed, but both
    share their tensors: a buffer that one changes is changed for the other. The new module takes positional tensors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch about its own classes
        graph = copy.deepcopy(guarded.graph)
    for node in [*graph.nodes]:
        if node.target == _GUARDS or _checks_types_only(node):
            graph.erase_node(node)
    output = graph.output_node()
    try:
        output.args = (_build(guarded._out_spec, iter(output.args[0])),)  # noqa: SLF001 - torch keeps it nowhere else
        graph._codegen = CodeGen()  # noqa: SLF001
    except TypeError:
        pass  # torch builds the results of other classes, by the codegen that the graph has already
    names: dict[str, str] = {}
    for node in graph.find_nodes(op="get_attr"):
        node.target = names.setdefault(node.target, f"state_{len(names)}")
    module = fx.GraphModule({}, fx.Graph())
    for target, name in names.items():
        module.__dict__[name] = reduce(getattr, target.split("."), guarded)  # setattr would register it
    module.graph = graph
    return module


def _keep_checks(guarded: fx.GraphModule) -> fx.GraphModule:
    """Remove everything from what ``ExportedProgram.module`` returned but the checks of its inputs.

    It is changed in place, and returned: called as before, it raises what it raised, and returns nothing useful.
    """
    graph = guarded.graph
    graph.output_node().args = ((),)
    for node in reversed([*graph.nodes]):
        if node.op not in ("placeholder", "output") and node.target != _GUARDS:
            graph.erase_node(node)
    codegen = graph._codegen  # noqa: SLF001 - the arguments are still a tree; the result is none
    codegen.pytree_info = codegen.pytree_info._replace(out_spec=None)
    guarded.recompile()
    return guarded


def _checks_types_only(node: fx.Node) -> bool:
    """Whether a node checks an intermediate's type, which follows from the inputs' types and so from their check."""
    if node.target is not torch.ops.aten._assert_tensor_metadata.default:  # noqa: SLF001 - an operator's name
        return False
    sizes = (*node.args[1:3], node.kwargs.get("size"), node.kwargs.get("stride"))
    return all(value is None for value in sizes)


def _build(spec: TreeSpec, leaves: Iterator[fx.Node]) -> Any:
    """Return results as their tree has them, so that Python's own tuples, lists and dictionaries are made of them.

    Raises:
        TypeError: There is another class in the tree.
    """
    if spec.is_leaf():
        return next(leaves)
    values = [_build(child, leaves) for child in spec.children()]
    if spec.type is dict:
        return dict(zip(spec.context, values, strict=True))
    if spec.type in (tuple, list):
        return spec.type(values)
    raise TypeError(f"{spec.type} is no plain container")
