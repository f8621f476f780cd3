"""ONNX graphs: a model's inputs and outputs, its digest, and the rewriting that the quantizers need first."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from hone_runtime.onnx import dimensions

from . import cached, crashes, tensors

ATTENTION = {"Attention", "MultiHeadAttention", "QAttention"}
"""Operators that compute a whole attention."""

OWN = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

QUANTIZED = {
    *("DynamicQuantizeLinear", "MatMulInteger", "DynamicQuantizeMatMul", "QAttention", "QuantizeLinear", "MatMulNBits"),
    *("MatMulIntegerToFloat", "DynamicQuantizeLSTM"),
}
"""Operators of quantized graphs."""
QUANTIZED_ACTIVATIONS = QUANTIZED - {"MatMulNBits"}
"""Operators that quantize activations, not only weights."""

_FUSED = ATTENTION | {
    *("EmbedLayerNormalization", "QEmbedLayerNormalization", "SkipLayerNormalization", "BiasGelu", "FastGelu"),
    *("SkipSimplifiedLayerNormalization", "RotaryEmbedding"),
}
_DOMAINS = ("ai.onnx", "com.microsoft", "com.ms.", "org.pytorch.")  # domains that ONNX Runtime may support
_LARGEST = 1_800_000_000  # bytes of weights that always fit into one protobuf file, whose limit is 2 GiB


class OutsideError(ValueError):
    """External data that is located outside the model's folder."""


def describe(job: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs, the outputs and the digest of the graph of ``model.onnx``.

    For a model that is refused, return ``refused`` with the reason, and ``slug`` if its external data is outside its
    folder.

    Raises:
        ValueError: The file cannot be read.
    """
    try:
        model = read(Path(job["input"]["path"]))
    except OutsideError as error:
        return {"refused": str(error), "slug": "model-external-data"}
    if refusal := _find_refusal(model):
        return {"refused": refusal}
    kept = {f"present.{name}" for name in cached.list_cache(model)}
    if kept:
        cached.name_columns(model)
    described = tensors.describe(model, job, hidden=kept)
    if job.get("adaptor") == "source" and not kept:
        from . import measured

        requested = job["shapes"][0]["sizes"] if job.get("shapes") else {}
        described = measured.correct(Path(job["input"]["path"]), described, requested)
    return {**described, "graph": _digest(model), **describe_file(model)}


def describe_file(model: Any) -> dict[str, Any]:
    """Return the properties that consumers may limit: opset, IR version, domains and operators."""
    nodes = [*_find(model, onnx.NodeProto)]
    own = {function.domain for function in model.functions}
    opsets = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return {
        **({"opset": opsets[0]} if opsets else {}),
        "ir_version": model.ir_version,
        "domains": sorted({node.domain or "ai.onnx" for node in nodes if node.domain not in own}),
        "operators": sorted({node.op_type for node in nodes}),
        **({"crashes": crashes.LEFT_OUT} if crashes.may_crash(model, nodes, _find(model, onnx.TensorProto)) else {}),
    }


def _find_refusal(model: Any) -> str | None:
    """Return unknown operators, or an input or output that is not a tensor, with advice; None if absent."""
    own = {function.domain for function in model.functions}
    nodes = [node for node in _find(model, onnx.NodeProto) if node.domain and node.domain not in own]
    if odd := sorted({f"{node.domain}:{node.op_type}" for node in nodes if not node.domain.startswith(_DOMAINS)}):
        return (
            f"it has operators that ONNX Runtime does not have: {', '.join(odd[:5])}. Libraries that come with a model "
            "are not loaded. Export it with operators of ONNX, or with a function for each of its own"
        )
    values = [(side, value) for side in ("input", "output") for value in getattr(model.graph, side)]
    side, strange = next((each for each in values if not each[1].type.HasField("tensor_type")), ("", None))
    if strange is None:
        return None
    kind = str(strange.type.WhichOneof("value")).removesuffix("_type")
    reason = f"its {side} {strange.name!r} is not a tensor (its type is {kind})"
    maps = {name: node.input[0] for node in model.graph.node if node.op_type == "ZipMap" for name in node.output}
    if strange.name not in maps:
        return reason
    tensors = [maps.get(value.name, value.name) for value in model.graph.output]
    inputs = [value.name for value in model.graph.input]
    return (
        f"{reason}: a ZipMap makes maps of the tensor {maps[strange.name]!r}. Export it again with zipmap=False: "
        f"to_onnx(model, ..., options={{id(model): {{'zipmap': False}}}}); or take the tensors from the file: "
        f"onnx.utils.extract_model('model.onnx', 'tensors.onnx', {inputs}, {tensors})"
    )


def read(folder: Path) -> Any:
    """Read ``model.onnx`` with its external data, which must be inside the folder.

    Raises:
        OutsideError: Its external data is located outside its folder.
        ValueError: The file cannot be read.
    """
    model = read_graph(folder)
    onnx.load_external_data_for_model(model, str(folder))
    return model


def read_graph(folder: Path) -> Any:
    """Read ``model.onnx`` without its external data, which must be inside the folder.

    Raises:
        OutsideError: Its external data is located outside its folder.
        ValueError: The file cannot be read.
    """
    path = folder / "model.onnx"
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError is not in a public module
        raise ValueError(f"model.onnx cannot be read: it is truncated, corrupt or no ONNX file ({error})") from error
    if not model.graph.node:
        raise ValueError("model.onnx cannot be read: it holds no graph")
    root = folder.resolve()
    for tensor in _find(model, onnx.TensorProto):
        for location in (entry.value for entry in tensor.external_data if entry.key == "location"):
            inside = (folder / location).resolve().is_relative_to(root)
            if not inside or "_ORT_MEM_ADDR_" in location:  # a tag that turns the offset into an address in memory
                raise OutsideError(
                    f"external data of {tensor.name!r} is located outside the model's folder, at {location!r}. Save it "
                    "again with onnx.save_model(model, path, save_as_external_data=True, location='model.onnx.data')"
                )
    _merge_opsets(model)
    return model


def _merge_opsets(model: Any) -> None:
    """Remove duplicate opset imports, as ``onnx.compose`` writes them: quantizers expect one for each domain."""
    unique = {
        (each.domain, each.version): onnx.OperatorSetIdProto.FromString(each.SerializeToString())
        for each in model.opset_import
    }
    if len(unique) < len(model.opset_import):
        del model.opset_import[:]
        model.opset_import.extend(unique.values())


def _find(message: Any, kind: type) -> Iterator[Any]:
    """Yield every message of a type within another one, at any depth, including attributes, subgraphs and functions."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in [value] if hasattr(value, "ListFields") else value:
                if isinstance(each, kind):
                    yield each
                yield from _find(each, kind)


def _digest(model: Any) -> str:
    """Return a digest of operators, attributes, edges and weights that is independent of tensor names."""
    rows: list[Any] = [sorted((entry.domain, entry.version) for entry in model.opset_import)]
    rows.append(_digest_graph(model.graph, {}))
    rows += sorted(
        [function.domain, function.name, _digest_nodes(function.node, {name: name for name in function.input})]
        for function in model.functions
    )
    return "sha256:" + _hash(rows)


def _digest_graph(graph: Any, outer: dict[str, str]) -> str:
    names = dict(outer)
    names |= {value.name: f"input {len(outer)} {index}" for index, value in enumerate(graph.input)}
    names |= {tensor.name: _digest_tensor(tensor) for tensor in graph.initializer}
    body = _digest_nodes(graph.node, names)
    return _hash([body, [names.get(value.name, value.name) for value in graph.output]])


def _digest_nodes(nodes: Any, names: dict[str, str]) -> str:
    """Digest nodes in order; ``names`` maps each tensor to its canonical name, and is extended."""
    rows = []
    for node in nodes:
        inputs = [names.get(name, name) for name in node.input]
        names |= {name: f"node {len(names)}" for name in node.output if name}
        attributes = [_digest_attribute(each, names) for each in sorted(node.attribute, key=lambda each: each.name)]
        rows.append([node.domain, node.op_type, inputs, [names.get(name, "") for name in node.output], attributes])
    return _hash(rows)


def _digest_attribute(attribute: Any, names: dict[str, str]) -> list[Any]:
    graphs = [graph for graph in (attribute.g, *attribute.graphs) if graph.node or graph.output]
    tensors = [tensor for tensor in (attribute.t, *attribute.tensors) if tensor.data_type]
    if graphs or tensors:
        return [attribute.name, *(_digest_graph(graph, names) for graph in graphs), *map(_digest_tensor, tensors)]
    plain = type(attribute)()
    plain.CopyFrom(attribute)
    plain.ClearField("doc_string")
    return [attribute.name, plain.SerializeToString(deterministic=True).hex()]


def _digest_tensor(tensor: Any) -> str:
    content = b"\0".join(tensor.string_data) or tensor.raw_data or onnx.numpy_helper.to_array(tensor).tobytes()
    return _hash([tensor.data_type, list(tensor.dims), hashlib.sha256(content).hexdigest()])


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def count(model: Any) -> Counter[str]:
    """Return how often each operator type occurs in the main graph."""
    return Counter(node.op_type for node in model.graph.node)


def count_fused(model: Any) -> Counter[str]:
    """Return how often each of ONNX Runtime's own operators occurs that replaces many operators of ONNX."""
    own = (node.op_type for node in model.graph.node if node.domain == OWN)
    return Counter(name for name in own if name in _FUSED)


def is_estimator(model: Any) -> bool:
    """Return whether the graph has operators of estimators, such as tree ensembles."""
    return any(node.domain == "ai.onnx.ml" for node in model.graph.node)


def is_large(model: Any) -> bool:
    """Return whether the weights need separate files: external data."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer) > _LARGEST


def stage(model: Any, job: dict[str, Any], path: Path | None = None) -> Path:
    """Write a model into the scratch directory, by default as ``source.onnx``.

    It lacks exporters' shapes, for which the quantizers fail. Known facts about inputs and outputs that the graph lacks
    are written into it. The copy protects the input's folder: ``quantize_dynamic`` writes a file next to its input.
    """
    del model.graph.value_info[:]
    dimensions.declare(model, job["input"])
    path = path or Path(job["temporary"]) / "source.onnx"
    onnx.save(model, path, save_as_external_data=is_large(model), location=f"{path.name}.data")
    return path


def split_gemms(model: Any) -> int:
    """Replace each plain Gemm with a constant weight by MatMul and Add, which the quantizer supports; return how many.

    ONNX Runtime's own ``replace_gemm_with_matmul`` also transposes a weight for other nodes that share it.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes, splits = [], 0
    for node in model.graph.node:
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        plain = given.get("alpha", 1.0) == given.get("beta", 1.0) == 1.0 and not given.get("transA", 0)
        if node.op_type != "Gemm" or not plain or node.input[1] not in weights:
            nodes.append(node)
            continue
        weight = onnx.numpy_helper.to_array(weights[node.input[1]])
        matrix = np.ascontiguousarray(weight.T if given.get("transB", 0) else weight)
        stem = f"{node.output[0]}_gemm"
        model.graph.initializer.append(onnx.numpy_helper.from_array(matrix, f"{stem}_weight"))
        biased = len(node.input) > 2 and bool(node.input[2])
        product, name = f"{stem}_product" if biased else node.output[0], node.name or stem
        nodes.append(onnx.helper.make_node("MatMul", [node.input[0], f"{stem}_weight"], [product], name=name))
        if biased:
            nodes.append(onnx.helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{name}_bias"))
        splits += 1
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    _drop_unused(model.graph)
    return splits


def _drop_unused(graph: Any) -> None:
    """Remove the weights of the main graph that neither a node nor a subgraph reads."""
    read = {name for node in _find(graph, onnx.NodeProto) for name in node.input}
    read |= {value.name for each in (graph, *_find(graph, onnx.GraphProto)) for value in each.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
