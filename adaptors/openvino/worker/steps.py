"""Convert, compile and compress: one function for each adaptor."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from hone_loading import load_program

from . import graphs, session

os.environ.update(CI="true", NNCF_CI="true")  # no telemetry: see session; a step has its process for itself

Json = dict[str, Any]


def _convert(job: Json, output: Path) -> Json:
    """Convert ONNX to IR, keep the weights in their own precision, and keep the names that OpenVINO drops."""
    model = ov.convert_model(Path(job["input"]["path"], "model.onnx"))
    specs = (*job["input"]["inputs"], *job["input"]["outputs"])
    for port, spec in zip((*model.inputs, *model.outputs), specs, strict=True):
        if spec["name"] not in port.get_names():
            return {"failed": {"class": "convert", "reason": f"tensor {spec['name']!r} is not in the converted model"}}
        port.get_tensor().set_names({spec["name"]})
    model.set_rt_info(json.dumps({spec["name"]: spec["shape"] for spec in specs}), graphs.DIMENSIONS)
    ov.save_model(model, output / "model.xml", compress_to_fp16=False)  # as it would by default
    return {}


def _compile(job: Json, output: Path) -> Json:
    """Copy the files, and check that this CPU supports the precision that the adaptor is named after."""
    session.open_session(job, {"INFERENCE_PRECISION_HINT": job["adaptor"].removeprefix("openvino.")})
    for name in ("model.xml", "model.bin"):
        shutil.copyfile(Path(job["input"]["path"], name), output / name)
    return {}


def _quantize(job: Json, output: Path) -> Json:
    """Quantize weights and activations to int8 with ranges from the calibration data.

    With accuracy control, layers are reverted until the program's metric is within the limit.
    """
    import nncf

    options, model = job["options"], session.read(job["input"]["path"])
    if _count_quantizers(model):
        return {"nothing_to_do": "the graph is quantized already"}
    rows = Rows(job["calibration"], job["input"]["inputs"])
    batches = rows.split(range(len(rows)))
    transformer = graphs.has_attention(model) if options["transformer"] is None else options["transformer"]
    # Seven bits for all weights, or NNCF's own default: for those of the first convolutions.
    fix = nncf.OverflowFix.ENABLE if options["reduce_range"] else nncf.OverflowFix.FIRST_LAYER
    advanced = nncf.AdvancedQuantizationParameters(overflow_fix=fix)
    arguments = {
        "preset": nncf.QuantizationPreset(options["preset"]) if options["preset"] else None,
        "model_type": nncf.ModelType.TRANSFORMER if transformer else None,
        "subset_size": min(-(-options["subset_size"] // rows.batch), len(batches)),
        "fast_bias_correction": options["fast_bias_correction"],
        "ignored_scope": _ignore(options),
    }
    if job["adaptor"] == "openvino.int8-ptq":
        quantized = nncf.quantize(model, nncf.Dataset(batches), advanced_parameters=advanced, **arguments)
        return _finish(quantized, output, _count_quantizers(quantized))
    validation = Validation(job)
    kept = validation.rows
    quantized = nncf.quantize_with_accuracy_control(
        model,
        calibration_dataset=nncf.Dataset(batches),
        validation_dataset=nncf.Dataset(range(len(kept)), lambda row: kept.take([row] * kept.fixed)),
        validation_fn=validation.measure,
        max_drop=options["max_drop"],
        advanced_quantization_parameters=advanced,
        **arguments,
    )
    return _finish(quantized, output, _count_quantizers(quantized), metric=validation.name)


def _ignore(options: Json) -> Any:
    """Return NNCF's scope of nodes to leave alone; names that do not exist are an error, as by default in NNCF."""
    import nncf

    return nncf.IgnoredScope(names=list(options["exclude"])) if options["exclude"] else None


def _compress(job: Json, output: Path) -> Json:
    """Store weights in eight bits, or in four bits in groups, and keep the activations.

    Groups are smaller where a layer asks for it; a whole channel is one where no layer can be divided.
    """
    import nncf

    options, four = job["options"], job["adaptor"] == "openvino.int4-weights"
    types = ("i4", "u4") if four else ("i8", "u8")
    sizes = dict.fromkeys((options["group_size"], -1)) if four else (None,)
    arguments: dict[str, Any] = {"ignored_scope": _ignore(options)}
    arguments["mode"] = nncf.CompressWeightsMode[f"INT{4 if four else 8}_{'SYM' if options['symmetric'] else 'ASYM'}"]
    if four:
        fallback = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
        arguments |= {"ratio": options["ratio"], "all_layers": options["all_layers"], "advanced_parameters": fallback}
    for size in sizes:
        model = session.read(job["input"]["path"])
        before = _count_weights(model, types)
        model = nncf.compress_weights(model, group_size=size, **arguments)
        gained = _count_weights(model, types) - before
        if gained:
            break
    return _finish(model, output, gained, **({"group_size": size} if four else {}))


STEPS = {
    "openvino.ir": _convert,
    "openvino.f32": _compile,
    "openvino.bf16": _compile,
    "openvino.int8-ptq": _quantize,
    "openvino.int8-accuracy-control": _quantize,
    "openvino.int8-weights": _compress,
    "openvino.int4-weights": _compress,
}


def _finish(model: Any, output: Path, gained: int, **metadata: Any) -> Json:
    if gained <= 0:
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    ov.save_model(model, output / "model.xml", compress_to_fp16=False)
    return {"metadata": {"quantized_operators": gained, **metadata}}


def _count_quantizers(model: Any) -> int:
    return sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())


def _count_weights(model: Any, types: tuple[str, ...]) -> int:
    """Return how many weights (constants of at least two dimensions) have one of these element types."""
    constants = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return sum(
        node.get_element_type().get_type_name() in types
        and len(node.get_output_partial_shape(0)) > 1
        and not node.get_friendly_name().endswith("zero_point")
        for node in constants
    )


class Rows:
    """Feeds from a npz, one array for each input, rows first, in calls of the batch that the model takes.

    Attributes:
        fixed: The fixed batch, else 1.
        batch: The fixed batch, else the one that was asked for.
    """

    def __init__(self, path: str, inputs: list[Json], batch: int = 1) -> None:
        with np.load(path, allow_pickle=False) as data:
            self._arrays = {spec["name"]: data[spec["name"]] for spec in inputs}
        first = next(iter(inputs[0]["shape"]), None)
        self.fixed, self.batch = (first, first) if isinstance(first, int) else (1, batch)

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    def take(self, rows: Sequence[int] | np.ndarray[Any, Any]) -> session.Arrays:
        """Return these rows of every input."""
        return {name: array[rows] for name, array in self._arrays.items()}

    def split(self, rows: Sequence[int]) -> list[session.Arrays]:
        """Return these rows in calls of one size; the last one is filled up with the first rows."""
        return [self.take(part) for part in np.resize(rows, (-(-len(rows) // self.batch), self.batch))]


class Validation:
    """The program's metric as NNCF needs it: higher is better, with a score for each row where the metric has one."""

    def __init__(self, job: Json) -> None:
        program = job["program"]
        self._program = load_program(program["path"], program["library"])
        self._options = {**getattr(self._program, "OPTIONS", {}), **program["options"]}
        self._outputs = program["outputs"]
        self.name = str(getattr(self._program, "METRIC", "metric"))
        self._sign = 1.0 if getattr(self._program, "HIGHER_IS_BETTER", True) else -1.0
        self.rows = Rows(program["feeds"], job["input"]["inputs"], batch=64)
        labelled = getattr(self._program, "NEEDS_TARGETS", True)
        with np.load(program["targets" if labelled else "source"], allow_pickle=False) as data:
            self._targets = dict(data)

    def measure(self, compiled: Any, rows: Iterable[int]) -> tuple[float, list[Any]]:
        """Return the metric over these rows of the validation data, and what NNCF compares row by row.

        That is each row's score, or its outputs where the metric does not decompose: a metric such as the area
        under a curve has no value for one row.
        """
        chosen, opened = list(rows), session.Session(compiled)
        parts = [opened.run(feeds) for feeds in self.rows.split(chosen)]
        outputs = {name: np.concatenate([part[name] for part in parts])[: len(chosen)] for name in self._outputs}
        predictions = self._program.decode(outputs, self._options)
        targets = {name: array[chosen] for name, array in self._targets.items()}
        value = self._sign * float(self._program.metric(predictions, targets, self._options))
        scores = self._program.score(predictions, targets, self._options)
        if scores is None:
            return value, [[outputs[name][row] for name in self._outputs] for row in range(len(chosen))]
        return value, [float(score) for score in scores]
