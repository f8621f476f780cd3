"""OpenVINO's and NNCF's own code: conversion to IR, quantization, and the runtime of IR.

Run by path with the python of the toolchain's environment; imports the standard library, numpy and the toolchain only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Job = dict[str, Any]
Notes = dict[str, Any]

DIMENSIONS = "kedro_hone_dimensions"
"""Where an IR keeps the names of its dynamic dimensions, which OpenVINO itself forgets."""

BATCH = 64
"""Rows of one validating call where the batch is free."""


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """Switch the telemetry off while something is imported.

    It starts a thread on import that keeps the process alive; its only switch without a file in the user's home is CI.
    """
    before = {name: os.environ.get(name) for name in ("CI", "NNCF_CI")}
    os.environ.update(dict.fromkeys(before, "true"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _import_openvino() -> ModuleType:
    with _without_telemetry():
        import openvino
    return openvino


def _import_nncf() -> ModuleType:
    _import_openvino()
    with _without_telemetry():
        import nncf
    return nncf


# --- the runtime ---------------------------------------------------------------------------------------------------


class Session:
    """An IR compiled for the CPU, with one request: inputs are shared for the call, outputs are copies."""

    def __init__(self, compiled: Any) -> None:
        self._inputs = {_name(port): index for index, port in enumerate(compiled.inputs)}
        self._outputs = [_name(port) for port in compiled.outputs]
        self._compiled = compiled
        self._request = compiled.create_infer_request()

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return every output by name, for inputs by name."""
        indexed = {self._inputs[name]: array for name, array in feeds.items()}
        results = self._request.infer(indexed, share_inputs=True, share_outputs=False)
        return {name: results[index] for index, name in enumerate(self._outputs)}

    def close(self) -> None:
        """Release the request and the compiled model."""
        del self._request, self._compiled


def load(job: Job) -> Session:
    """Compile ``model.xml`` for the CPU; the run options are OpenVINO's own properties.

    Raises:
        ValueError: The files cannot be read, or this CPU does not compute in the precision that was asked for.
    """
    properties = {**job["input"].get("run_options", {}), "INFERENCE_NUM_THREADS": int(job["threads"])}
    model = _read(Path(job["input"]["path"]))
    compiled = _import_openvino().Core().compile_model(model, "CPU", properties)
    _check_precision(compiled, properties.get("INFERENCE_PRECISION_HINT"))
    return Session(compiled)


def _check_precision(compiled: Any, wanted: str | None) -> None:
    """Refuse another precision than the one asked for: OpenVINO replaces what the CPU lacks without a word."""
    names = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
    got = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if wanted is not None and names.get(got, got) != names.get(wanted, wanted):
        raise ValueError(f"OpenVINO computes in {got} on this CPU, not in {wanted}")


# --- what a model is -----------------------------------------------------------------------------------------------


def describe(job: Job) -> Notes | None:
    """Return the inputs, the outputs and the digest of the graph of ``model.xml``; None for another format.

    Raises:
        ValueError: The files cannot be read.
    """
    if job["input"]["format"] != "openvino-ir":
        return None
    folder = Path(job["input"]["path"])
    model = _read(folder)
    names = json.loads(str(model.get_rt_info(DIMENSIONS).value)) if model.has_rt_info(DIMENSIONS) else {}
    return {
        "inputs": [_spec(port, names) for port in model.inputs],
        "outputs": [_spec(port, names) for port in model.outputs],
        "graph": _digest(folder),
    }


def _read(folder: Path) -> Any:
    for name in ("model.xml", "model.bin"):
        if not (folder / name).is_file():
            raise ValueError(f"{name} is missing")
    try:
        return _import_openvino().Core().read_model(folder / "model.xml")
    except RuntimeError as error:
        raise ValueError(f"model.xml and model.bin cannot be read: truncated, corrupt or no IR ({error})") from error


def _name(port: Any) -> str:
    """Return the tensor's name: the first of its names, or its node's where it has none."""
    return min(port.get_names(), default=port.get_node().get_friendly_name())


def _spec(port: Any, names: dict[str, list[int | str]]) -> Notes:
    """Return a tensor's specification; dimensions are named as the IR's source named them."""
    name, partial = _name(port), port.get_partial_shape()
    if partial.rank.is_dynamic:
        raise ValueError(f"the rank of {name!r} is not fixed")
    known = dict(enumerate(names.get(name, [])))
    shape: list[int | str] = []
    for axis, dim in enumerate(partial):
        noted = known.get(axis)
        fresh = f"dim_{axis}" if axis else "batch"
        shape.append(dim.get_length() if dim.is_static else noted if isinstance(noted, str) else fresh)
    element = port.get_element_type()
    dtype = "bfloat16" if element.get_type_name() == "bf16" else np.dtype(element.to_dtype()).name
    return {"name": name, "dtype": dtype, "shape": shape}


def _digest(folder: Path) -> str:
    """Return a digest of operators, attributes, edges and weights, without names and without rt_info.

    Each constant is replaced by the hash of its bytes, so that neither its place in the file nor its name counts.
    """
    weights = memoryview((folder / "model.bin").read_bytes())

    def strip(element: ET.Element) -> list[Any]:
        kept = {key: value for key, value in element.attrib.items() if key not in {"name", "names", "friendly_name"}}
        if "offset" in kept and "size" in kept:
            start = int(kept.pop("offset"))
            kept["bytes"] = hashlib.sha256(weights[start : start + int(kept["size"])]).hexdigest()
        children = [strip(child) for child in element if child.tag not in {"rt_info", "meta_data"}]
        return [element.tag, sorted(kept.items()), (element.text or "").strip(), children]

    tree = ET.parse(folder / "model.xml")  # noqa: S314 (expat bounds entities, the host bounds workers)
    return "sha256:" + hashlib.sha256(json.dumps(strip(tree.getroot())).encode()).hexdigest()


# --- transformations -----------------------------------------------------------------------------------------------


def transform(job: Job) -> Notes:
    """Write ``model.xml`` and ``model.bin`` into the job's output as its adaptor demands, and return notes.

    Raises:
        KeyError: The adaptor is not this toolchain's.
        ValueError: The input cannot be read, or this CPU does not compute in the precision that was asked for.
    """
    return _TRANSFORMATIONS[job["adaptor"]](job, Path(job["input"]["path"]), Path(job["output"]))


def _convert(job: Job, source: Path, output: Path) -> Notes:
    """Convert ONNX to IR, keep the weights in their own precision, and keep the names that OpenVINO forgets."""
    model = _import_openvino().convert_model(source / "model.onnx")
    specs = (*job["input"]["inputs"], *job["input"]["outputs"])
    for port, spec in zip((*model.inputs, *model.outputs), specs, strict=True):
        if spec["name"] not in port.get_names():
            return {"failed": {"class": "convert", "reason": f"tensor {spec['name']!r} is not in the converted model"}}
        port.get_tensor().set_names({spec["name"]})
    model.set_rt_info(json.dumps({spec["name"]: spec["shape"] for spec in specs}), DIMENSIONS)
    _save(model, output)
    return {}


def _compile(job: Job, source: Path, output: Path) -> Notes:
    """Keep the files and prove that this CPU takes the run options that go with them."""
    load(job | {"input": job["input"] | {"run_options": _PROPERTIES[job["adaptor"]]}}).close()
    for name in ("model.xml", "model.bin"):
        shutil.copyfile(source / name, output / name)
    return {}


_PROPERTIES = {
    "openvino.f32": {"INFERENCE_PRECISION_HINT": "f32"},
    "openvino.bf16": {"INFERENCE_PRECISION_HINT": "bf16"},
}


def _quantize(job: Job, source: Path, output: Path) -> Notes:
    """Quantize weights and activations to int8 with ranges from the calibration data."""
    nncf = _import_nncf()
    model = _read(source)
    rows = _Rows(job["calibration"], job["input"]["inputs"])
    if _count_quantizers(model):
        return {"nothing_to_do": "the graph is quantized already"}
    quantized = nncf.quantize(model, nncf.Dataset(rows.batches()), **_quantization(job, rows))
    return _finish(quantized, output, _count_quantizers(quantized))


def _quantize_controlled(job: Job, source: Path, output: Path) -> Notes:
    """Quantize to int8, then give layers back their precision until the metric of the program holds."""
    nncf = _import_nncf()
    model = _read(source)
    rows = _Rows(job["calibration"], job["input"]["inputs"])
    if _count_quantizers(model):
        return {"nothing_to_do": "the graph is quantized already"}
    validation = _Validation(job)
    quantized = nncf.quantize_with_accuracy_control(
        model,
        calibration_dataset=nncf.Dataset(rows.batches()),
        validation_dataset=nncf.Dataset(range(len(validation.rows)), validation.rows.take_one),
        validation_fn=validation.measure,
        max_drop=job["options"]["max_drop"],
        **_quantization(job, rows),
    )
    return _finish(quantized, output, _count_quantizers(quantized), metric=validation.name)


def _quantization(job: Job, rows: _Rows) -> dict[str, Any]:
    """Return the arguments that NNCF's two quantizers share."""
    nncf, options = _import_nncf(), job["options"]
    return {
        "preset": nncf.QuantizationPreset(options["preset"]) if options["preset"] else None,
        "model_type": nncf.ModelType.TRANSFORMER if options["transformer"] else None,
        "subset_size": min(-(-options["subset_size"] // rows.batch), rows.calls),
        "fast_bias_correction": options["fast_bias_correction"],
        "ignored_scope": _ignored(options),
    }


def _ignored(options: dict[str, Any]) -> Any:
    """Return NNCF's scope of nodes to leave alone; names that do not exist are an error, as NNCF has it."""
    nncf = _import_nncf()
    return nncf.IgnoredScope(names=list(options["exclude"])) if options["exclude"] else None


def _compress_int8(job: Job, source: Path, output: Path) -> Notes:
    """Store weights in eight bits and keep the activations."""
    nncf = _import_nncf()
    model = _read(source)
    before = _count_weights(model, "i8", "u8")
    mode = nncf.CompressWeightsMode.INT8_SYM if job["options"]["symmetric"] else nncf.CompressWeightsMode.INT8_ASYM
    model = nncf.compress_weights(model, mode=mode, ignored_scope=_ignored(job["options"]))
    return _finish(model, output, _count_weights(model, "i8", "u8") - before)


def _compress_int4(job: Job, source: Path, output: Path) -> Notes:
    """Store weights in four bits, in groups, smaller where a layer asks for it; one a channel where none fits."""
    nncf, options = _import_nncf(), job["options"]
    smaller = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
    for group_size in dict.fromkeys((options["group_size"], -1)):
        model = _read(source)
        before = _count_weights(model, "i4", "u4")
        model = nncf.compress_weights(
            model,
            mode=nncf.CompressWeightsMode.INT4_SYM if options["symmetric"] else nncf.CompressWeightsMode.INT4_ASYM,
            ratio=options["ratio"],
            group_size=group_size,
            all_layers=options["all_layers"],
            advanced_parameters=smaller,
            ignored_scope=_ignored(options),
        )
        gained = _count_weights(model, "i4", "u4") - before
        if gained:
            break
    return _finish(model, output, gained, group_size=group_size)


_TRANSFORMATIONS = {
    "openvino.ir": _convert,
    "openvino.f32": _compile,
    "openvino.bf16": _compile,
    "openvino.int8-ptq": _quantize,
    "openvino.int8-accuracy-control": _quantize_controlled,
    "openvino.int8-weights": _compress_int8,
    "openvino.int4-weights": _compress_int4,
}


def _finish(model: Any, output: Path, gained: int, **metadata: Any) -> Notes:
    if gained <= 0:
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    _save(model, output)
    return {"metadata": {"quantized_operators": gained, **metadata}}


def _save(model: Any, output: Path) -> None:
    """Write the IR with weights as they are; by default OpenVINO would halve them to fp16."""
    _import_openvino().save_model(model, output / "model.xml", compress_to_fp16=False)


def _count_quantizers(model: Any) -> int:
    return sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())


def _count_weights(model: Any, *types: str) -> int:
    """Return how many weights (constants of at least two dimensions) have one of these element types."""
    constants = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return sum(
        node.get_element_type().get_type_name() in types
        and len(node.get_output_partial_shape(0)) > 1
        and not node.get_friendly_name().endswith("zero_point")
        for node in constants
    )


# --- data ----------------------------------------------------------------------------------------------------------


class _Rows:
    """Feeds from a npz, one array for each input, rows first; in calls of the batch that the model takes."""

    def __init__(self, path: str, inputs: list[Notes], batch: int = 1) -> None:
        with np.load(path, allow_pickle=False) as data:
            self._arrays = {spec["name"]: data[spec["name"]] for spec in inputs}
        self._rows = len(next(iter(self._arrays.values())))
        first = next(iter(inputs[0]["shape"]), None)
        self._fixed = first if isinstance(first, int) else 1
        self.batch = first if isinstance(first, int) else batch
        self.calls = -(-self._rows // self.batch)

    def __len__(self) -> int:
        return self._rows

    def take(self, rows: Iterable[int]) -> dict[str, np.ndarray]:
        """Return these rows."""
        return {name: array[list(rows)] for name, array in self._arrays.items()}

    def take_one(self, row: int) -> dict[str, np.ndarray]:
        """Return one row, repeated to the batch of a model that takes no other."""
        return self.take([row] * self._fixed)

    def batches(self) -> list[dict[str, np.ndarray]]:
        """Return all rows in calls of one size; the last one is filled up with the first rows."""
        starts = range(0, self._rows, self.batch)
        return [self.take((start + offset) % self._rows for offset in range(self.batch)) for start in starts]


class _Validation:
    """The program's metric as NNCF wants it: a number that is higher when better, and one for each row where it can."""

    def __init__(self, job: Job) -> None:
        program = job["program"]
        spec = importlib.util.spec_from_file_location("program", program["path"])
        self._program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._program)
        self._options, self._outputs = program["options"], program["outputs"]
        self.name = str(getattr(self._program, "METRIC", "metric"))
        self._sign = 1.0 if getattr(self._program, "HIGHER_IS_BETTER", True) else -1.0
        self.rows = _Rows(program["feeds"], job["input"]["inputs"], BATCH)
        with np.load(program["targets"], allow_pickle=False) as data:
            self._targets = dict(data)

    def measure(self, compiled: Any, rows: Iterable[int]) -> tuple[float, list[Any]]:
        """Return the metric over these rows of the validation data, and what NNCF compares row by row.

        That is each row's score, or its outputs where the metric does not decompose: of a metric like the area under a
        curve, one row says nothing.
        """
        chosen = list(rows)
        outputs = self._infer(compiled, chosen)
        predictions = self._program.decode(outputs, self._options)
        targets = {name: array[chosen] for name, array in self._targets.items()}
        value = self._sign * float(self._program.metric(predictions, targets, self._options))
        scores = self._program.score(predictions, targets, self._options)
        if scores is None:
            return value, [[outputs[name][row] for name in self._outputs] for row in range(len(chosen))]
        return value, [float(score) for score in scores]

    def _infer(self, compiled: Any, chosen: list[int]) -> dict[str, np.ndarray]:
        session, parts = Session(compiled), []
        for start in range(0, len(chosen), self.rows.batch):
            part = chosen[start : start + self.rows.batch]
            filled = part + part[:1] * (self.rows.batch - len(part))
            outputs = session.run(self.rows.take(filled))
            parts.append({name: outputs[name][: len(part)] for name in self._outputs})
        return {name: np.concatenate([part[name] for part in parts]) for name in self._outputs}
