"""ONNX Runtime's own code: graph optimization, quantization, and the runtime of ONNX models.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Job = dict[str, Any]
Notes = dict[str, Any]

LARGEST = 1_800_000_000
"""Bytes of weights that one protobuf file holds for certain (its limit is 2 GiB); more go to external data."""

BATCH = 16
"""Rows of one calibration call where the batch is free."""

LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


# --- the runtime ---------------------------------------------------------------------------------------------------


class Session:
    """An ONNX model in ONNX Runtime on the CPU, opened as its users do: default waiting policy, default arenas."""

    def __init__(self, path: Path, *, threads: int, optimization: str = "all") -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[optimization])
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return every output by name, for inputs by name."""
        return dict(zip(self._outputs, self._session.run(None, feeds), strict=True))

    def close(self) -> None:
        """Release the session and its threads."""
        del self._session


def load(job: Job) -> Session:
    """Open ``model.onnx``; the run option ``graph_optimization`` says how much of its graph is rewritten at the start.

    Raises:
        ValueError: The file cannot be read, or its external data lies outside its folder.
    """
    path = Path(job["input"]["path"]) / "model.onnx"
    level = job["input"].get("run_options", {}).get("graph_optimization", "all")
    try:
        return Session(path, threads=int(job["threads"]), optimization=level)
    except Exception as error:  # ONNX Runtime's own classes differ between versions; their messages do not
        text = str(error)
        if "xternal data" in text and ("escapes" in text or "outside" in text or "under" in text):
            raise ValueError(f"external data lies outside the model's folder: {text}") from error
        if any(sign in text for sign in ("INVALID_PROTOBUF", "Protobuf parsing failed", "No graph was found")):
            raise ValueError("model.onnx cannot be read: it is truncated, corrupt or no ONNX file") from error
        raise


# --- what a model is -----------------------------------------------------------------------------------------------


def describe(job: Job) -> Notes | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.onnx``; None for another format.

    Raises:
        ValueError: The file cannot be read, or its external data lies outside its folder.
    """
    if job["input"]["format"] != "onnx":
        return None
    model = _read(Path(job["input"]["path"]))
    weights = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in weights]
    batch = next((name for name in (_symbol(value, 0) for value in values) if name), "")
    return {
        "inputs": [_spec(value, batch) for value in values],
        "outputs": [_spec(value, batch) for value in model.graph.output],
        "graph": _digest(model),
    }


def _symbol(value: Any, axis: int) -> str | None:
    """Return a dynamic dimension's name ("" when it has none), or None when it is fixed or does not exist."""
    dims = value.type.tensor_type.shape.dim
    return None if axis >= len(dims) or dims[axis].HasField("dim_value") else str(dims[axis].dim_param)


def _spec(value: Any, batch: str) -> Notes:
    """Return a tensor's specification; the first dynamic first dimension of the inputs is called ``batch``."""
    import onnx

    if not value.type.HasField("tensor_type"):
        raise ValueError(f"{value.name!r} is no tensor")
    shape: list[int | str] = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.HasField("dim_value"):
            shape.append(int(dim.dim_value))
        elif (axis == 0 and not dim.dim_param) or (batch and dim.dim_param == batch):
            shape.append("batch")
        else:
            shape.append(dim.dim_param or f"dim_{axis}")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return {"name": value.name, "dtype": "str" if dtype == np.dtype(object) else dtype.name, "shape": shape}


def _read(folder: Path) -> Any:
    """Read ``model.onnx`` with its external data, which may not leave the folder."""
    import onnx

    path = folder / "model.onnx"
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError has no public home
        raise ValueError(f"model.onnx cannot be read: it is truncated, corrupt or no ONNX file ({error})") from error
    if not model.graph.node:
        raise ValueError("model.onnx cannot be read: it holds no graph")
    root = folder.resolve()
    for tensor in _tensors(model):
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
        if location is not None and not (folder / location).resolve().is_relative_to(root):
            raise ValueError(f"external data of {tensor.name!r} lies outside the model's folder: {location}")
    onnx.load_external_data_for_model(model, str(folder))
    return model


def _tensors(model: Any) -> Iterator[Any]:
    """Yield every tensor of a model: weights and attributes, in subgraphs and functions too."""

    def in_nodes(nodes: Any) -> Iterator[Any]:
        for node in nodes:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
                for graph in (attribute.g, *attribute.graphs):
                    yield from in_graph(graph)

    def in_graph(graph: Any) -> Iterator[Any]:
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        yield from in_nodes(graph.node)

    yield from in_graph(model.graph)
    for function in model.functions:
        yield from in_nodes(function.node)


def _digest(model: Any) -> str:
    """Return a digest of operators, attributes, edges and weights that does not depend on any tensor's name."""
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
    """Digest nodes in order; ``names`` gives each tensor its canonical name, and is added to."""
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
    import onnx

    content = b"\0".join(tensor.string_data) or tensor.raw_data or onnx.numpy_helper.to_array(tensor).tobytes()
    return _hash([tensor.data_type, list(tensor.dims), hashlib.sha256(content).hexdigest()])


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


# --- transformations -----------------------------------------------------------------------------------------------


def transform(job: Job) -> Notes:
    """Write ``model.onnx`` into the job's output as its adaptor demands, and return notes.

    Raises:
        KeyError: The adaptor is not this toolchain's.
        ValueError: The input cannot be read, or its external data lies outside its folder.
    """
    tempfile.tempdir = job["temporary"]  # the quantizers put large intermediate models there
    model = _read(Path(job["input"]["path"]))
    before = _count(model)
    notes = _TRANSFORMATIONS[job["adaptor"]](job, model, Path(job["output"]) / "model.onnx")
    if notes or job["adaptor"] == "onnxruntime.session":
        return notes
    import onnx

    gained = _count(onnx.load(Path(job["output"]) / "model.onnx", load_external_data=False))
    fresh = {
        name: n - before.get(name, 0) for name, n in gained.items() if name in _QUANTIZED and n > before.get(name, 0)
    }
    if not fresh:
        for path in Path(job["output"]).iterdir():
            path.unlink()
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    return {"metadata": {"quantized_operators": fresh}}


_QUANTIZED = frozenset(
    {"DynamicQuantizeLinear", "MatMulInteger", "DynamicQuantizeMatMul", "QuantizeLinear", "MatMulNBits"}
)


def _optimize(job: Job, model: Any, output: Path) -> Notes:
    """Save the graph as ONNX Runtime rewrites it for this CPU.

    From a staged copy: of a model with external data it would save references to files that the output does not have.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[job["options"]["optimization"]])
    options.intra_op_num_threads = int(job["threads"])
    options.optimized_model_filepath = str(output)
    if _is_large(model):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "model.onnx.data")
    ort.InferenceSession(_stage(job, model), options, providers=["CPUExecutionProvider"])
    return {}


def _quantize_dynamic(job: Job, model: Any, output: Path) -> Notes:
    """Quantize the weights of MatMul and Gemm to int8; activations at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    options = job["options"]
    if not {"MatMul", "Gemm"} & _count(model).keys():
        return {"nothing_to_do": "the graph has no MatMul or Gemm"}
    quantize_dynamic(
        _stage(job, model),
        output,
        op_types_to_quantize=["MatMul", "Gemm"],
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        weight_type=QuantType.QInt8,
        nodes_to_exclude=list(options["exclude"]),
        use_external_data_format=_is_large(model),
        extra_options={"DefaultTensorType": 1},  # float32 where the shape inference knows no element type
    )
    return {}


def _quantize_static(job: Job, model: Any, output: Path) -> Notes:
    """Quantize weights and activations to int8 in QDQ form, with ranges from the calibration data."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quant_pre_process, quantize_static

    options = job["options"]
    if "QuantizeLinear" in _count(model):
        return {"nothing_to_do": "the graph is quantized already"}
    model = _raise_opset(model, 13)  # per-channel scales need it
    prepared = Path(job["temporary"]) / "prepared.onnx"
    large = _is_large(model)
    source = str(_stage(job, model))
    try:
        quant_pre_process(source, str(prepared), auto_merge=True, save_as_external_data=large)
    except Exception as error:  # noqa: BLE001 (bare Exception is what it raises when the symbolic inference gives up)
        print(f"symbolic shape inference gave up ({error}); going on without it")  # noqa: T201 (the log)
        quant_pre_process(source, str(prepared), skip_symbolic_shape=True, save_as_external_data=large)
    methods = {
        "minmax": CalibrationMethod.MinMax,
        "entropy": CalibrationMethod.Entropy,
        "percentile": CalibrationMethod.Percentile,
    }
    quantize_static(
        str(prepared),
        str(output),
        _CalibrationRows(job),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(options["operators"]) or None,
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        activation_type=QuantType.QInt8 if options["activations"] == "int8" else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=list(options["exclude"]),
        use_external_data_format=large,
        calibrate_method=methods[options["calibration"]],
        calibration_providers=["CPUExecutionProvider"],
        extra_options={"CalibStridedMinMax": 1},  # any method: merge after each batch, so that memory stays bounded
    )
    return {}


class _CalibrationRows:
    """Hands the calibration rows to ONNX Runtime in batches of one size, since its histograms take no ragged ones."""

    def __init__(self, job: Job) -> None:
        with np.load(job["calibration"], allow_pickle=False) as data:
            self._arrays = {spec["name"]: data[spec["name"]] for spec in job["input"]["inputs"]}
        self._rows = len(next(iter(self._arrays.values())))
        first = job["input"]["inputs"][0]["shape"][:1]
        self._batch = first[0] if first and isinstance(first[0], int) else min(BATCH, self._rows)
        self.set_range(0, len(self))

    def __len__(self) -> int:
        return math.ceil(self._rows / self._batch)

    def set_range(self, start_index: int, end_index: int) -> None:
        """Go on with these batches."""
        self._next, self._end = start_index, end_index

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next batch, or None at the end; the last one is filled up with the first rows."""
        if self._next >= self._end:
            return None
        rows = np.arange(self._next * self._batch, (self._next + 1) * self._batch) % self._rows
        self._next += 1
        return {name: array[rows] for name, array in self._arrays.items()}


def _quantize_weights(job: Job, model: Any, output: Path) -> Notes:
    """Store the weights of MatMul and Gemm in four bits, in blocks, and keep the activations."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    options = job["options"]
    split = _split_gemms(model)
    quantizer = MatMulNBitsQuantizer(
        model,
        bits=4,
        block_size=options["block_size"],
        is_symmetric=options["symmetric"],
        accuracy_level=options["accuracy_level"],
        nodes_to_exclude=list(options["exclude"]),
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(output), _is_large(quantizer.model.model))
    print(f"{split} Gemm were written as MatMul and Add")  # noqa: T201 (the log)
    return {}


_TRANSFORMATIONS = {
    "onnxruntime.session": _optimize,
    "onnxruntime.int8-dynamic": _quantize_dynamic,
    "onnxruntime.int8-static": _quantize_static,
    "onnxruntime.int4-weights": _quantize_weights,
}


# --- graphs --------------------------------------------------------------------------------------------------------


def _count(model: Any) -> dict[str, int]:
    """Return how often each operator type occurs in the main graph."""
    types = [node.op_type for node in model.graph.node]
    return {name: types.count(name) for name in sorted(set(types))}


def _is_large(model: Any) -> bool:
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer) > LARGEST


def _stage(job: Job, model: Any) -> Path:
    """Write a model into the scratch directory, without the shapes that exporters note and the quantizers trip over.

    A copy too because ``quantize_dynamic`` writes a file beside its input.
    """
    import onnx

    del model.graph.value_info[:]
    path = Path(job["temporary"]) / "source.onnx"
    if _is_large(model):
        onnx.save(model, path, save_as_external_data=True, location="source.onnx.data")
    else:
        onnx.save(model, path)
    return path


def _raise_opset(model: Any, least: int) -> Any:
    import onnx

    version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return model if version >= least else onnx.version_converter.convert_version(model, least)


def _split_gemms(model: Any) -> int:
    """Write each plain Gemm with a constant weight as MatMul and Add, which the four-bit quantizer takes.

    Returns:
        How many were.
    """
    import onnx

    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes, count = [], 0
    for node in model.graph.node:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA", 0)
        if node.op_type != "Gemm" or not plain or node.input[1] not in weights:
            nodes.append(node)
            continue
        weight = onnx.numpy_helper.to_array(weights[node.input[1]])
        matrix = np.ascontiguousarray(weight.T if attributes.get("transB", 0) else weight)
        stem = f"{node.output[0]}_gemm"
        model.graph.initializer.append(onnx.numpy_helper.from_array(matrix, f"{stem}_weight"))
        biased = len(node.input) > 2 and bool(node.input[2])
        product = f"{stem}_product" if biased else node.output[0]
        name = node.name or stem
        nodes.append(onnx.helper.make_node("MatMul", [node.input[0], f"{stem}_weight"], [product], name=name))
        if biased:
            nodes.append(onnx.helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{name}_bias"))
        count += 1
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    _drop_unused(model.graph)
    return count


def _drop_unused(graph: Any) -> None:
    """Remove the weights of the main graph that nothing reads, neither a node nor a subgraph."""

    def reads(inner: Any) -> Iterator[str]:
        yield from (value.name for value in inner.output)
        for node in inner.node:
            yield from node.input
            for attribute in node.attribute:
                for each in (attribute.g, *attribute.graphs):
                    yield from reads(each)

    read = set(reads(graph))
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
