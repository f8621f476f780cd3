"""Turn an exported program into a module of ordinary layers over the same parameters.

An exported program calls operators such as ``aten.linear`` with its parameters. Pruning and training need modules
instead: ``nn.Linear`` and its like, with modes for training and evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hone_pytorch.models import Flat, flatten_program, name_outputs
from torch import fx, nn

from hone_runtime.worker.refusal import UnsuitedError

_aten = torch.ops.aten
Arguments = list[Any]
Make = Callable[[nn.Module, Arguments], tuple[nn.Module, Any] | None]
"""Returns a layer for the arguments of an operator, and the value that it is called with; None if there is none."""
_WIDE = (nn.Linear, nn.Conv1d, nn.Conv2d)

_ABSENT = [None] * 9  # exported calls leave out trailing arguments with default values


def open_trainable(program: torch.export.ExportedProgram, examples: Sequence[torch.Tensor]) -> fx.GraphModule:
    """Return a program as a trainable module in evaluation mode.

    It takes the inputs as positional tensors, and returns a tuple of the outputs. A parameter that two operators use
    stays one: as two layers it could be pruned twice.

    Args:
        program: The exported program; its parameters are shared, not copied.
        examples: One tensor for each input, to compare the results of both.

    Raises:
        UnsuitedError: The results for the examples differ, or no parameter gets a gradient.
    """
    module = program.module(check_guards=False)
    doubtful = _list_doubtful(module.graph)
    _replace_in_place(module.graph)
    shared = _find_shared(module)
    for node in list(module.graph.nodes):
        if node.op == "call_function" and (make := _LAYERS.get(node.target)) is not None:
            _replace(module, node, make, shared=shared)
    module.graph.set_codegen(fx.graph.CodeGen())  # without the structure of arguments and results
    module.graph.eliminate_dead_code()
    plain = fx.GraphModule(module, module.graph)
    plain.delete_all_unused_submodules()
    plain.eval()
    _compare(Flat(flatten_program(program)), plain, examples, doubtful=doubtful)
    return plain


def _replace_in_place(graph: fx.Graph) -> None:
    """Replace operators that overwrite their input, such as ``relu_``, by those that return a new tensor."""
    for node in list(graph.nodes):
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        if (
            node.op != "call_function"
            or not name.endswith("_")
            or name.startswith("_")
            or not hasattr(_aten, name[:-1])
        ):
            continue
        node.target = getattr(getattr(_aten, name[:-1]), node.target._overloadname)  # noqa: SLF001 - no other name has it
        overwritten, nodes = node.args[0], list(graph.nodes)
        for user in {*nodes[nodes.index(node) + 1 :]} & {*overwritten.users}:
            user.replace_input_with(overwritten, node)


def _find_shared(module: nn.Module) -> frozenset[int]:
    """Return the identities of the parameters that several operators use."""
    uses = Counter[int]()
    for node in module.graph.nodes:
        if node.op == "get_attr":
            uses[id(_read(module, node))] += len(node.users)
    return frozenset(one for one, count in uses.items() if count > 1)


def _replace(module: nn.Module, node: fx.Node, make: Make, *, shared: frozenset[int]) -> None:
    """Replace the call of an operator by a call of a layer with the same parameters, if they are its own."""
    arguments = [*node.args, *_ABSENT]
    for index, schema in enumerate(node.target._schema.arguments):  # noqa: SLF001 - the only list of names
        if schema.name in node.kwargs:
            arguments[index] = node.kwargs[schema.name]
    given = [_read(module, arguments[index]) for index in _PARAMETERS[node.target] if arguments[index] is not None]
    if not all(isinstance(one, nn.Parameter) and id(one) not in shared for one in given):
        return
    made = make(module, arguments)
    if made is None:
        return
    layer, value = made
    name = f"{type(layer).__name__.lower()}_{node.name}"
    module.add_submodule(name, layer)
    with module.graph.inserting_before(node):
        called = module.graph.call_module(name, (value,))
    called.meta = dict(node.meta)
    node.replace_all_uses_with(called)
    module.graph.erase_node(node)


def _read(module: nn.Module, value: Any) -> Any:
    """Return the parameter or buffer that an argument names; None if it is computed or absent."""
    if not isinstance(value, fx.Node) or value.op != "get_attr":
        return None
    found: Any = module
    for part in value.target.split("."):
        found = getattr(found, part)
    return found


def _linear(module: nn.Module, given: Arguments) -> tuple[nn.Module, Any] | None:
    weight = _read(module, given[1])
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=given[2] is not None, device="meta")
    return _fill(layer, weight, _read(module, given[2])), given[0]


def _convolution(kind: type[nn.Module], module: nn.Module, given: Arguments) -> tuple[nn.Module, Any] | None:
    weight, groups = _read(module, given[1]), given[6] or 1
    layer = kind(
        *(weight.shape[1] * groups, weight.shape[0], tuple(weight.shape[2:])),
        stride=given[3] or 1,
        padding=given[4] or 0,
        dilation=given[5] or 1,
        groups=groups,
        bias=given[2] is not None,
        device="meta",
    )
    return _fill(layer, weight, _read(module, given[2])), given[0]


def _batch_norm(module: nn.Module, given: Arguments) -> tuple[nn.Module, Any] | None:
    mean, variance, weight = (_read(module, given[index]) for index in (3, 4, 1))
    if mean is None or variance is None:
        return None
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}.get(given[0].meta["val"].dim())
    if kind is None:
        return None
    layer = kind(len(mean), eps=given[7], momentum=given[6], affine=weight is not None)
    layer.running_mean, layer.running_var = mean, variance
    return _fill(layer, weight, _read(module, given[2])), given[0]


def _layer_norm(module: nn.Module, given: Arguments) -> tuple[nn.Module, Any] | None:
    weight = _read(module, given[2])
    if weight is None:
        return None
    layer = nn.LayerNorm(tuple(given[1]), eps=1e-5 if given[4] is None else given[4], bias=given[3] is not None)
    return _fill(layer, weight, _read(module, given[3])), given[0]


def _embedding(module: nn.Module, given: Arguments) -> tuple[nn.Module, Any] | None:
    weight = _read(module, given[0])
    return _fill(nn.Embedding(*weight.shape, device="meta"), weight, None), given[1]


def _dropout(module: nn.Module, given: Arguments) -> tuple[nn.Module, Any]:  # noqa: ARG001 - as the others
    return nn.Dropout(given[1]), given[0]


_LAYERS: dict[Any, Make] = {
    _aten.linear.default: _linear,
    _aten.conv1d.default: lambda module, given: _convolution(nn.Conv1d, module, given),
    _aten.conv2d.default: lambda module, given: _convolution(nn.Conv2d, module, given),
    _aten.batch_norm.default: _batch_norm,
    _aten.layer_norm.default: _layer_norm,
    _aten.embedding.default: _embedding,
    _aten.dropout.default: _dropout,
}


_PARAMETERS: dict[Any, tuple[int, ...]] = {
    **dict.fromkeys((_aten.linear.default, _aten.conv1d.default, _aten.conv2d.default), (1, 2)),
    _aten.batch_norm.default: (1, 2),
    _aten.layer_norm.default: (2, 3),
    _aten.embedding.default: (0,),
    _aten.dropout.default: (),
}
"""The positions of an operator's parameters among its arguments."""


def _fill(layer: nn.Module, weight: Any, bias: Any) -> nn.Module:
    if weight is not None:
        layer.weight = weight
    if bias is not None:
        layer.bias = bias
    return layer


def _list_doubtful(graph: fx.Graph) -> list[str]:
    """Return the operators of a graph that overwrite a tensor, which may be a part of another, or that draw numbers."""
    called = (node.target for node in graph.nodes if node.op == "call_function")
    operators = (one for one in called if isinstance(one, torch._ops.OpOverload))  # noqa: SLF001 - no other name
    tag = torch.Tag.nondeterministic_seeded
    return sorted({str(one) for one in operators if one._schema.is_mutable or tag in one.tags})  # noqa: SLF001 - as above


def _compare(
    flat: nn.Module, plain: fx.GraphModule, examples: Sequence[torch.Tensor], *, doubtful: Sequence[str]
) -> None:
    """Compare the results of a program and of its module, and check that every parameter can be trained."""
    with torch.no_grad():  # for both: with gradients some operators have another kernel, which rounds otherwise
        expected, found = flat(*examples), call_module(plain, examples)
    if not all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)):
        why = f", probably by {', '.join(doubtful)}" if doubtful else ""
        raise UnsuitedError(f"it cannot be trained: as a module of layers the program computes something else{why}")
    parameters = [(name, one) for name, one in plain.named_parameters() if one.dtype.is_floating_point]
    for _, one in parameters:
        one.requires_grad = True
    losses = [one.sum() for one in call_module(plain, examples) if one.requires_grad]
    if not losses:
        raise UnsuitedError("it cannot be trained: its outputs depend on no parameter in a way that has a gradient")
    torch.stack(losses).sum().backward()
    lost = [name for name, one in parameters if one.grad is None]
    for _, one in parameters:
        one.grad = None
    if len(lost) == len(parameters):
        raise UnsuitedError(f"it cannot be trained: no parameter gets a gradient, such as {lost[0]}")


def call_module(module: nn.Module, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the output tensors of a trainable module or of a student."""
    return tuple(name_outputs(module(*tensors)).values())


def list_layers(module: fx.GraphModule) -> dict[str, nn.Module]:
    """Return the linear and convolutional layers of a module by name, in the order of the first call."""
    called = (node.target for node in module.graph.nodes if node.op == "call_module")
    found = {name: module.get_submodule(name) for name in called}
    return {name: one for name, one in found.items() if isinstance(one, _WIDE)}


def find_last(module: fx.GraphModule) -> frozenset[str]:
    """Return the layers whose outputs reach an output of the module without another layer: their width is fixed."""
    layers, found, seen = list_layers(module), set(), set()
    pending = [node for node in module.graph.nodes if node.op == "output"]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op == "call_module" and node.target in layers:
            found.add(node.target)
        else:
            pending += node.all_input_nodes
    return frozenset(found)


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters, each counted once."""
    return sum(one.numel() for one in module.parameters())
