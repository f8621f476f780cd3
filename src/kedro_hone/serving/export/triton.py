"""Export to a model repository of NVIDIA Triton Inference Server, for its backends ONNX Runtime, OpenVINO and PyTorch.

Sources: https://github.com/triton-inference-server, the README files of ``onnxruntime_backend``, ``openvino_backend``
and ``pytorch_backend``, and the guide to model configurations of ``server``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from numpy.typing import NDArray

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format
from kedro_hone.serving.export.golden_rows import GoldenRows, pack_raw
from kedro_hone.serving.export.markdown import format_text
from kedro_hone.serving.export.models import Model, find_misfit, find_model_streams, find_threads, list_models
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.export.triton_config import Message, Word, format_message
from kedro_hone.serving.export.versions import choose_version
from kedro_hone.serving.tensors import DYNAMIC, Tensor
from kedro_hone.serving.winner import ServedWinner

REPOSITORY: Final = PurePosixPath("models")
"""The model repository. The README and the golden rows are outside: Triton takes each folder in it for a model."""

_FILES: Final[Mapping[Format, str]] = MappingProxyType(
    {"onnx": "model.onnx", "openvino-ir": "model.xml", "aot-inductor": "model.pt2"}
)
_BACKENDS: Final[Mapping[Format, Message]] = MappingProxyType(
    {
        "onnx": [("backend", "onnxruntime"), ("platform", "onnxruntime_onnx")],
        "openvino-ir": [("backend", "openvino")],
        "aot-inductor": [("backend", "pytorch"), ("platform", "torch_aoti")],
    }
)
_THREADS: Final[Mapping[Format, str]] = MappingProxyType(
    {"onnx": "intra_op_thread_count", "openvino-ir": "INFERENCE_NUM_THREADS", "aot-inductor": "INTRA_OP_THREAD_COUNT"}
)
"""The parameter for the number of threads."""
_VARIABLES: Final[Mapping[Format, Mapping[str, str]]] = MappingProxyType(
    {"onnx": {"ORT_DISABLE_TELEMETRY": "1"}, "aot-inductor": {"AOTI_RUNTIME_CHECK_INPUTS": "1"}}
)
"""The variables of the server's process: without the second, a package computes nonsense for inputs of other sizes."""
_UNOPTIMIZED: Final = 2
"""The level of the graph's optimization by which Triton's ONNX Runtime backend disables all of it."""

_START: Final = """```console
docker run --rm {variables}-p 8000:8000 -p 8001:8001 -p 8002:8002 \\
  -v "$PWD/models:/models:ro" nvcr.io/nvidia/tritonserver:{release}-py3 \\
  tritonserver --model-repository=/models
```

{release} stands for the release that you use. {needs}"""

_NEEDS: Final[Mapping[Format, str]] = MappingProxyType(
    {
        "onnx": "Its ONNX Runtime must read the model's operators (opset {opset}, IR version {ir_version}).",
        "openvino-ir": "Its OpenVINO must be at least as new as the one that wrote the model.",
        "aot-inductor": "It must be 26.03 or later, with the PyTorch of the packages, on the same kind of CPU.",
    }
)


def _find_misfit(winner: ServedWinner, request: Request) -> str:
    if misfit := find_misfit(winner, _BACKENDS):
        return misfit
    tensors = (*winner.inputs, *winner.outputs)
    if scalar := next((tensor.name for tensor in tensors if not tensor.shape), ""):
        return f"its tensors have at least one dimension, and {scalar!r} has none"
    if request.max_batch is None:
        return ""
    models = list_models(winner)
    if any(model.artifact.format != "onnx" for model in models):
        return "only its ONNX Runtime backend takes fewer rows than the largest batch, which --max-batch needs"
    if any(tensor.shape[0] != DYNAMIC for tensor in tensors):
        return "--max-batch needs rows, of any number, in each of the model's tensors"
    return ""


def _write(winner: ServedWinner, request: Request) -> Export:
    version = choose_version(winner)
    models = tuple(_adapt(model, request) for model in list_models(winner))
    files: dict[PurePosixPath, Path | bytes] = {}
    for model in models:
        place = REPOSITORY / model.name
        files[place / "config.pbtxt"] = format_message(_configure(model, request, version=version)).encode()
        files |= {place / str(version) / name: path for name, path in model.files.items()}
        for name, array in _choose_warmup(model, request).items():
            files[place / "warmup" / name] = pack_raw(array)
    kept = winner.artifact.format != "aot-inductor"  # its files have other names here
    return Export(
        files=files,
        models=models,
        start=_describe_start(models),
        port=8000,
        notes=tuple(_list_notes(models, request)),
        places=tuple(REPOSITORY / model.name / str(version) for model in models) if kept else (),
    )


def _adapt(model: Model, request: Request) -> Model:
    """Return a model with the names of files and tensors, and the shapes, that it has in Triton."""
    if model.artifact.format == "aot-inductor":
        return _name_by_position(model)
    if request.max_batch is None:
        return model
    return replace(  # a tensor with rows only gets an axis: without the rows, no dimension would be left
        model,
        inputs=tuple(map(_widen, model.inputs)),
        outputs=tuple(map(_widen, model.outputs)),
        golden=model.golden and _map_golden(model.golden, lambda name, array: (name, _widen_array(array))),
    )


def _widen(tensor: Tensor) -> Tensor:
    return tensor if len(tensor.shape) > 1 else tensor.model_copy(update={"shape": (*tensor.shape, 1)})


def _widen_array(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.ndim > 1 else array[:, None]


def _name_by_position(model: Model) -> Model:
    """Return a model whose tensors have the names that the PyTorch backend gives them: by their position."""
    names = {
        tensor.name: f"{side}__{number}"
        for side, tensors in (("INPUT", model.inputs), ("OUTPUT", model.outputs))
        for number, tensor in enumerate(tensors)
    }
    inputs, outputs = (
        tuple(tensor.model_copy(update={"name": names[tensor.name]}) for tensor in side)
        for side in (model.inputs, model.outputs)
    )
    golden = model.golden and _map_golden(model.golden, lambda name, array: (names[name], array))
    (path,) = model.files.values()
    files = {_FILES["aot-inductor"]: path}
    return replace(model, files=files, inputs=inputs, outputs=outputs, golden=golden)


def _map_golden(golden: GoldenRows, change: Callable[[str, NDArray[Any]], tuple[str, NDArray[Any]]]) -> GoldenRows:
    inputs, outputs = (dict(change(*item) for item in side.items()) for side in (golden.inputs, golden.outputs))
    return replace(golden, inputs=inputs, outputs=outputs)


def _configure(model: Model, request: Request, *, version: int) -> Message:
    """Return the fields of a model's ``config.pbtxt``."""
    form, most = model.artifact.format, request.max_batch or 0
    batching = [("dynamic_batching", [("max_queue_delay_microseconds", round(request.max_delay_ms * 1000))])]
    return [
        ("name", model.name),
        *_BACKENDS[form],
        ("default_model_filename", _FILES[form]),
        ("max_batch_size", most),
        *(("input", _describe(model, tensor, batched=most > 0)) for tensor in model.inputs),
        *(("output", _describe(model, tensor, batched=most > 0)) for tensor in model.outputs),
        ("instance_group", [("count", _count_instances(model)), ("kind", Word("KIND_CPU"))]),
        ("version_policy", [("specific", [("versions", (version,))])]),
        *(batching if most else ()),
        *_list_optimizations(model),
        *(
            ("parameters", [("key", key), ("value", [("string_value", value)])])
            for key, value in _list_parameters(model).items()
        ),
        *_list_warmups(model, request),
    ]


def _describe(model: Model, tensor: Tensor, *, batched: bool) -> Message:
    """Return a tensor's fields; without the rows if the server counts them."""
    fields: list[tuple[str, object]] = [("name", tensor.name), ("data_type", _name_type(tensor))]
    if not batched:
        return [*fields, ("dims", tensor.shape)]
    own = next(spec for spec in (*model.artifact.inputs, *model.artifact.outputs) if spec.name == tensor.name)
    widened = [("reshape", [("shape", ())])] if len(own.shape) == 1 else []
    return [*fields, ("dims", tensor.shape[1:]), *widened]


def _name_type(tensor: Tensor) -> Word:
    return Word("TYPE_STRING" if tensor.datatype == "BYTES" else f"TYPE_{tensor.datatype}")


def _list_optimizations(model: Model) -> Message:
    """Return how far ONNX Runtime optimizes the graph when it opens it; it is not optimized twice."""
    saved = model.artifact.run_options.get("graph_optimization") == "disabled"
    if model.artifact.format == "onnx" and (saved or "crashes" in model.artifact.metadata):
        return [("optimization", [("graph", [("level", _UNOPTIMIZED)])])]
    return []


def _count_instances(model: Model) -> int:
    """Return how many instances take calls: of ONNX Runtime a session each, of OpenVINO a request of one model."""
    streams = find_model_streams(model.artifact)
    return streams.calls if streams else 1


def _list_parameters(model: Model) -> dict[str, str]:
    """Return the parameters of a backend that carry the winner's run options and its threads."""
    form, options = model.artifact.format, model.artifact.run_options
    threads, streams = find_threads(model.artifact), find_model_streams(model.artifact)
    if streams and form == "onnx":
        threads = streams.threads  # of one instance
    found = {} if threads is None else {_THREADS[form]: str(threads)}
    if form == "openvino-ir":
        if not (streams and streams.auto):
            found["NUM_STREAMS"] = str(_count_instances(model))
        if hint := options.get("PERFORMANCE_HINT"):
            found["PERFORMANCE_HINT"] = str(hint)
        if options.get("INFERENCE_PRECISION_HINT") == "bf16":
            found["HINT_BF16"] = "YES"
    return found


def _choose_warmup(model: Model, request: Request) -> dict[str, NDArray[Any]]:
    """Return the arrays of the warm-up by their file names: golden rows, or the first one if the server counts rows."""
    if model.golden is None:
        return {}
    arrays = [model.golden.inputs[tensor.name] for tensor in model.inputs]
    return {f"input-{number}.bin": array[0] if request.max_batch else array for number, array in enumerate(arrays)}


def _list_warmups(model: Model, request: Request) -> Iterator[tuple[str, object]]:
    arrays = _choose_warmup(model, request)
    if not arrays:
        return
    fields: list[tuple[str, object]] = [("name", "golden"), ("batch_size", 1)]
    for tensor, (file, array) in zip(model.inputs, arrays.items(), strict=True):
        value = [("data_type", _name_type(tensor)), ("dims", array.shape), ("input_data_file", file)]
        fields.append(("inputs", [("key", tensor.name), ("value", value)]))
    yield "model_warmup", fields


def list_variables(models: Iterable[Model]) -> dict[str, str]:
    """Return the variables that the server's process needs for its models."""
    each = [_VARIABLES.get(model.artifact.format, {}) for model in models]
    return {name: value for variables in each for name, value in variables.items()}


def _describe_start(models: tuple[Model, ...]) -> str:
    needs = " ".join(sorted({_describe_needs(model.artifact) for model in models}))
    variables = "".join(f"-e {name}={value} " for name, value in list_variables(models).items())
    return _START.format(variables=variables, release="YY.MM", needs=needs)


def _describe_needs(artifact: Artifact) -> str:
    noted = {name: format_text(artifact.metadata.get(name, "?")) for name in ("opset", "ir_version")}
    return _NEEDS[artifact.format].format_map(noted)


def _list_notes(models: tuple[Model, ...], request: Request) -> Iterator[str]:
    formats = {model.artifact.format for model in models}
    if request.max_batch:
        yield (
            f"Triton merges calls up to {request.max_batch} rows, and waits up to {request.max_delay_ms:g} ms. "
            "A call with more rows is refused. A tensor with rows only has the shape (rows, 1)."
        )
    if any(model.artifact.run_options.get("INFERENCE_PRECISION_HINT") == "f32" for model in models):
        yield (
            "Triton's OpenVINO backend has no parameter for fp32: on a CPU with bf16 it may compute in bf16 where the "
            "winner computed in fp32. Compare the expected response first."
        )
    for model in models:
        if (streams := find_model_streams(model.artifact)) and streams.calls > 1:
            chosen = "; OpenVINO chooses how many streams compute them" if streams.auto else ""
            yield f"`{model.name}` takes {streams.calls} calls at once, each in an instance of its own{chosen}."
    if "aot-inductor" in formats:
        yield ("Tensors are named by their position. The packages are machine code for one kind of CPU.")
    if any("crashes" in model.artifact.metadata for model in models):
        yield "A pass of ONNX Runtime crashes for this graph, so Triton opens it without any optimization."


TARGET: Final = Target(
    name="triton",
    title="NVIDIA Triton Inference Server",
    find_misfit=_find_misfit,
    write=_write,
    unverified="Triton never ran in the tests of kedro-hone; they parse config.pbtxt by its own definition.",
)
