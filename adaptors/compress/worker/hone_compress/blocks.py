"""Depth: leave out the blocks of a network that its outputs need least."""

from __future__ import annotations

import copy
import itertools

import torch
from torch import fx

from hone_runtime.worker.refusal import UnsuitedError

from .progress import print_line
from .source import Source

Block = tuple[str, str]
"""The names of the nodes with the input and the output of a block."""

_ROWS = 256


def drop_layers(source: Source) -> fx.GraphModule:
    """Return a copy of a source's module without a share of its blocks.

    A block is left out by passing its input on. The blocks are ranked by the error without each of them alone, measured
    on training rows: the similarity of a block's input and output ranks them wrongly.
    """
    share, blocks = source.options["share"], find_blocks(source.module)
    count = round(share * len(blocks))
    if not blocks:
        raise UnsuitedError("it has no block whose input and output have the same shape")
    if not 0 < count < len(blocks):
        what = "none" if count == 0 else "all of them"
        raise UnsuitedError(
            f"it has {len(blocks)} blocks with the same shape before and after, and {share:.0%} are {what}"
        )
    measure = source.data.measure_training_error
    errors = {block: measure(drop(source.module, [block]), _ROWS) for block in blocks}
    for block, error in errors.items():
        print_line(f"without the block up to {block[1]}: error {error:.6f}")
    least = sorted(blocks, key=errors.__getitem__)[:count]
    return drop(source.module, least)


def find_blocks(module: fx.GraphModule) -> list[Block]:
    """Return the blocks of a module in order: what lies between two nodes that all data pass, of one shape.

    Data that depend on no parameter, such as a mask of attention, may go around a block.
    """
    found: list[Block] = []
    groups = _group(module, find_cuts(module))
    for before, after in itertools.pairwise(groups):
        # Where the block before ends in this group, this one begins there: else dropping both would leave a rest.
        starts = [one for one in before if found and one.name == found[-1][1]] or before
        pairs = ((first, last) for last in reversed(after) for first in reversed(starts))
        fitting = next(((a.name, b.name) for a, b in pairs if _shape(a) == _shape(b)), None)
        found += [fitting] if fitting else []
    return found


def find_cuts(module: fx.GraphModule) -> list[fx.Node]:
    """Return the nodes that all data pass, in order."""
    dependent = set[fx.Node]()
    for node in module.graph.nodes:
        if node.op in {"call_module", "get_attr"} or any(one in dependent for one in node.all_input_nodes):
            dependent.add(node)
    order = [node for node in module.graph.nodes if node in dependent and node.op != "output"]
    place = {node: index for index, node in enumerate(module.graph.nodes)}
    reach, cuts = -1, list[fx.Node]()
    for node in order:
        if node.op == "get_attr":
            continue
        if place[node] >= reach and _outputs(node):
            cuts.append(node)
        reach = max([reach, *(place[user] for user in node.users)])
    return cuts


def _outputs(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _group(module: fx.GraphModule, cuts: list[fx.Node]) -> list[list[fx.Node]]:
    """Return the cuts in groups, without a layer with a matrix of weights between those of a group."""
    groups = list[list[fx.Node]]()
    for cut in cuts:
        between = _between(module, groups[-1][-1], cut) if groups else ()
        if groups and not any(node.op == "call_module" and _has_weights(module, node) for node in between):
            groups[-1].append(cut)
        else:
            groups.append([cut])
    return groups


def _has_weights(module: fx.GraphModule, node: fx.Node) -> bool:
    layer = module.get_submodule(node.target)
    return any(one.dim() > 1 for one in layer.parameters())


def _between(module: fx.GraphModule, first: fx.Node, last: fx.Node) -> list[fx.Node]:
    """Return the nodes after one up to another, in the order of the graph."""
    nodes = list(module.graph.nodes)
    return nodes[nodes.index(first) + 1 : nodes.index(last) + 1]


def _shape(node: fx.Node) -> tuple[str, ...]:
    value = node.meta["val"]
    return (str(value.dtype), *map(str, value.shape))


def drop(module: fx.GraphModule, blocks: list[Block]) -> fx.GraphModule:
    """Return a copy of a source's module without these blocks."""
    changed = copy.deepcopy(module)
    nodes = {node.name: node for node in changed.graph.nodes}
    for first, last in blocks:
        nodes[last].replace_all_uses_with(_resolve(nodes[first]))
        nodes[last].meta["dropped"] = nodes[first]
    changed.graph.eliminate_dead_code()
    changed.recompile()
    changed.delete_all_unused_submodules()
    try:
        changed.graph.lint()
    except RuntimeError as error:
        raise UnsuitedError(f"without a block its graph is broken: {error}") from error
    return changed


def _resolve(node: fx.Node) -> fx.Node:
    """Return the node that replaces one: that before its block if it was left out, too."""
    while (before := node.meta.get("dropped")) is not None:
        node = before
    return node
