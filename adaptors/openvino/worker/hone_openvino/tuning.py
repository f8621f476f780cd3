"""Quantize the operators of an IR that hold the limits of the recipe's metrics: ``openvino.int8-tuned``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openvino as ov

from hone_runtime.tuning import rows
from hone_runtime.tuning.divergence import measure_divergence
from hone_runtime.tuning.engine import Engine, Outputs
from hone_runtime.tuning.judge import Judge
from hone_runtime.tuning.search import read_settings
from hone_runtime.tuning.tuner import tune

from . import session
from .quantization import Quantizer, finish

Json = dict[str, Any]

_WINDOW, _CALLS = 3, 12
"""An operator's time is the shortest of the means over so many calls in a row, without the first ones."""
_FOLLOWERS = frozenset(
    {"Broadcast", "Concat", "Convert", "DepthToSpace", "Gather", "MaxPool", "Pad", "Relu", "Reshape", "Split"}
    | {"Squeeze", "StridedSlice", "Slice", "Transpose", "Unsqueeze", "VariadicSplit"}
)
"""Operators behind which an operator still reads the quantized numbers."""


def tune_model(job: Json, quantizer: Quantizer, output: Path) -> Json:
    """Write the IR with the chosen operators in int8 into the job's output, and return notes."""
    began, engine, plain = time.monotonic(), _Graph(job, quantizer), "openvino.int8-ptq"
    settings, strategy = read_settings(job, engine.judge, began=began), job["options"]["strategy"]
    tuned = tune(engine, settings, strategy=strategy, plain=plain)
    if tuned.excluded is None:
        return tuned.notes
    noted = {**tuned.notes["metadata"]["tuned"], "corrects_bias": engine.corrects_bias}
    return finish(engine.build(tuned.excluded), output, tuned=noted)


class _Graph(Engine[Any]):
    """A model in OpenVINO: candidates are models in memory.

    Attributes:
        corrects_bias: Whether biases are corrected in candidates with excluded operators.
    """

    def __init__(self, job: Json, quantizer: Quantizer) -> None:
        self._job, self._quantizer, self.judge = job, quantizer, Judge(job["program"])
        self._rows = {name: array[: rows.MOST_ROWS] for name, array in quantizer.calibration.items()}
        self._search = rows.read_rows(job["program"]["feeds"], quantizer.inputs)
        self._size = quantizer.fixed or rows.BATCH
        self._last: tuple[frozenset[str], Any] = (frozenset(), quantizer.quantize())
        own = {node.get_friendly_name() for node in quantizer.model.get_ops()}
        readers = find_readers(self._last[1])
        self.operators = [name for name in _list_names(self._last[1]) if name in readers & own]
        self._removable: Any = None
        self.corrects_bias = True

    def open_source(self) -> Any:
        return self._quantizer.model

    def build(self, excluded: frozenset[str]) -> Any:
        if self._last[0] != excluded:
            self._last = (excluded, self._quantizer.quantize(sorted(excluded), corrects_bias=self.corrects_bias))
        return self._last[1]

    def isolate(self, operator: str) -> Any:
        """Return a copy of the model with all operators quantized, without the other operators' quantizers.

        It is calibrated once for all operators. Biases are not corrected, since the correction is for all quantizers
        together.
        """
        if self._removable is None:
            self._removable = self._quantizer.quantize(corrects_bias=False, compressed=False)
            self.corrects_bias = self._compare_corrections()
        model = self._removable.clone()
        for node in model.get_ordered_ops():
            if node.get_type_name() == "FakeQuantize":
                for port in node.output(0).get_target_inputs():
                    if operator not in list_reached(port.get_node()):
                        port.replace_source_output(node.input_value(0))
        return model

    def _compare_corrections(self) -> bool:
        """Return whether the correction of biases lowers the divergence of the model with all operators quantized.

        With outliers it may move biases by more than the error that it corrects, also beside excluded operators.
        """
        expected = {name: array.copy() for name, array in self.run(self._quantizer.model).items()}
        axes = self.find_class_axes(expected)
        corrected, plain = (
            measure_divergence(expected, self.run(model), axes) for model in (self.build(frozenset()), self._removable)
        )
        print(f"divergence {corrected:.2g} with corrected biases, {plain:.2g} without", flush=True)  # noqa: T201 (the log)
        return corrected <= plain

    def run(self, candidate: Any) -> rows.Arrays:
        return rows.run_rows(self._open(candidate).run, self._rows, self._size)

    def find_class_axes(self, outputs: Outputs) -> Mapping[str, int]:
        return self.judge.find_class_axes(outputs)

    def measure(self, candidate: Any) -> Mapping[str, float]:
        return self.judge.measure_all(rows.run_rows(self._open(candidate).run, self._search, self._size))

    def measure_source(self) -> Mapping[str, float]:
        stored = self.judge.measure_source()
        return self.measure(self._quantizer.model) if stored is None else stored

    def time(self, candidate: Any) -> float:
        return sum(self._measure(candidate).values())

    def list_times(self) -> Mapping[str, float]:
        """Return the seconds of the source's operators; one that is fused with others has the time of all."""
        compiled = self._compile(self._quantizer.model, profiled=True)
        times, found = self._measure(self._quantizer.model), dict[str, float]()
        for node in compiled.get_runtime_model().get_ordered_ops():
            noted = node.get_rt_info()
            names = str(noted["originalLayersNames"].value).split(",") if "originalLayersNames" in noted else []
            for name in names:
                found[name] = found.get(name, 0.0) + times.get(node.get_friendly_name(), 0.0)
        return found

    def _measure(self, candidate: Any) -> dict[str, float]:
        request = self._compile(candidate, profiled=True).create_infer_request()
        size = self._quantizer.fixed or rows.TIMED
        count = min(size, len(next(iter(self._rows.values()))))
        feeds = session.fill(rows.split_rows(self._rows, range(count), size)[0], self._quantizer.own)
        spent, found = dict[str, float](), dict[str, float]()
        for call in range(1, _CALLS + 1):
            if self._quantizer.own:
                request.reset_state()
            request.infer(feeds)
            if call % _WINDOW:
                continue
            for info in request.profiling_info:  # means over all calls so far
                total, name = info.real_time.total_seconds() * call, info.node_name
                seconds = (total - spent.get(name, 0.0)) / _WINDOW
                if call > _WINDOW:
                    found[name] = max(0.0, min(seconds, found.get(name, seconds)))
                spent[name] = total
        return found

    def _open(self, candidate: Any) -> session.Session:
        return session.Session(self._compile(candidate), self._quantizer.model)

    def _compile(self, model: Any, *, profiled: bool = False) -> Any:
        hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "PERF_COUNT": profiled}
        return ov.Core().compile_model(model, "CPU", {**hints, "INFERENCE_NUM_THREADS": int(self._job["threads"])})


def find_readers(model: Any) -> set[str]:
    """Return the names of the operators that read quantized numbers."""
    return {
        name
        for node in model.get_ops()
        if node.get_type_name() == "FakeQuantize"
        for port in node.output(0).get_target_inputs()
        for name in list_reached(port.get_node())
    }


def list_reached(node: Any) -> set[str]:
    """Return the names of the operators that read a node's numbers: its own, or behind followers those after it."""
    kind = node.get_type_name()
    if kind in {"FakeQuantize", "Result"}:
        return set()
    if kind not in _FOLLOWERS:
        return {str(node.get_friendly_name())}
    ports = [port for output in node.outputs() for port in output.get_target_inputs()]
    return {name for port in ports for name in list_reached(port.get_node())}


def _list_names(model: Any) -> list[str]:
    return [str(node.get_friendly_name()) for node in model.get_ordered_ops()]
