"""Quantize the operators of an ONNX graph that hold the limits of the recipe's metrics: ``onnxruntime.int8-tuned``."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
from onnxruntime import quantization
from onnxruntime.quantization.calibrate import create_calibrator
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import load_model_with_shape_infer
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

from hone_runtime.sessions import shapes
from hone_runtime.tuning import rows
from hone_runtime.tuning.engine import Engine, Outputs
from hone_runtime.tuning.judge import Judge
from hone_runtime.tuning.search import read_settings
from hone_runtime.tuning.tuner import tune

from . import graphs, session
from . import quantization as plain

Json = dict[str, Any]

_FOLLOWERS = frozenset(
    {"Clip", "Flatten", "Gather", "MaxPool", "Pad", "Relu", "Reshape", "Resize", "Slice", "Split", "Squeeze"}
    | {"Transpose", "Unsqueeze"}
)
"""Operators that the quantizer takes only after a quantized one; they add no rounding of their own."""
_WEIGHTED = frozenset({"MatMul", "Gemm", "Attention"})


def transform(job: Json) -> Json:
    """Write ``model.onnx`` with the chosen operators in int8 into the job's output, and return notes."""
    began, tempfile.tempdir = time.monotonic(), job["temporary"]
    model = graphs.read(Path(job["input"]["path"]))
    before = graphs.count(model)
    if before.keys() & graphs.QUANTIZED_ACTIVATIONS:
        return {"nothing_to_do": plain.QUANTIZED_ALREADY}
    if all(node.domain not in ("", "ai.onnx") for node in model.graph.node):
        return {"nothing_to_do": "the graph has no standard operator that could be quantized"}
    scheme = job["options"]["scheme"]
    if scheme == "auto":
        scheme = choose_scheme(model)
    try:
        engine = (_Dynamic if scheme == "dynamic" else _Static)(job, model)
    except AssertionError as error:
        if (refused := plain.explain_missing(error, plain.Batches(job))) is None:
            raise
        return refused
    del model
    settings, strategy = read_settings(job, engine.judge, began=began), job["options"]["strategy"]
    name = f"onnxruntime.int8-{scheme}"
    tuned = tune(engine, settings, strategy=strategy, plain=name)
    if tuned.excluded is None:
        return tuned.notes
    shutil.copytree(engine.build(tuned.excluded), job["output"], dirs_exist_ok=True)
    gained = plain.count_gained(before, Path(job["output"], "model.onnx"))
    if "metadata" not in gained:
        return gained
    noted = {**tuned.notes["metadata"]["tuned"], "scheme": scheme}
    return {"metadata": {**gained["metadata"], "tuned": noted}}


def choose_scheme(model: Any) -> str:
    """Return ``dynamic`` for a transformer, whose products are faster with ranges at run time, otherwise ``static``.

    A transformer has norms or softmaxes of its layers, and more matrix products than convolutions.
    """
    counts = graphs.count(model)
    norms = {"LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization", "SkipLayerNormalization"}
    normed = any(counts[name] for name in norms | graphs.ATTENTION)
    split = counts["Softmax"] > 0 and counts["ReduceMean"] > 1  # norms of an old opset, and attention
    return "dynamic" if (normed or split) and counts["MatMul"] > counts["Conv"] else "static"


class _Graph(Engine[Path]):
    """A graph in ONNX Runtime: a candidate is a folder with ``model.onnx``, and the next one replaces it."""

    def __init__(self, job: Json, model: Any) -> None:
        inputs = job["input"]["inputs"]
        names = [spec["name"] for spec in inputs]
        self._job, self.judge, self._large = job, Judge(job["program"]), graphs.is_large(model)
        self._fixed = shapes.find_fixed_batch(spec["shape"] for spec in inputs)
        self._rows = rows.read_rows(job["calibration"], names, rows.MOST_ROWS)
        self._search = rows.read_rows(job["program"]["feeds"], names)
        self._source, self._candidate = (Path(job["temporary"], name) for name in ("float", "candidate"))
        self._source.mkdir()
        self._prepare(model, self._source / "model.onnx")
        self._nodes = _name_nodes(self._source / "model.onnx")
        self._built: frozenset[str] | None = None
        self.operators = self._list_quantized(self.build(frozenset()))

    @abstractmethod
    def _prepare(self, model: Any, path: Path) -> None:
        """Write the graph in fp32, as the quantizer takes it."""

    @abstractmethod
    def _quantize(self, excluded: list[str], path: Path) -> None:
        """Write the graph with all operators quantized except these."""

    @abstractmethod
    def _list_quantized(self, whole: Path) -> list[str]:
        """Return the names of the operators that are quantized in a graph with all of them."""

    def open_source(self) -> Path:
        return self._source

    def build(self, excluded: frozenset[str]) -> Path:
        if excluded != self._built:
            self._built = None
            shutil.rmtree(self._candidate, ignore_errors=True)
            self._candidate.mkdir()
            self._quantize([*self._job["options"]["exclude"], *sorted(excluded)], self._candidate / "model.onnx")
            self._built = excluded
        return self._candidate

    def run(self, candidate: Path) -> rows.Arrays:
        return rows.run_rows(self._open(candidate).run, self._rows, self._fixed or rows.BATCH)

    def find_class_axes(self, outputs: Outputs) -> Mapping[str, int]:
        return self.judge.find_class_axes(outputs)

    def measure(self, candidate: Path) -> Mapping[str, float]:
        return self.judge.measure_all(rows.run_rows(self._open(candidate).run, self._search, self._fixed or rows.BATCH))

    def measure_source(self) -> Mapping[str, float]:
        stored = self.judge.measure_source()
        return self.measure(self._source) if stored is None else stored

    def time(self, candidate: Path) -> float:
        return sum(self._time(candidate, "all").values())

    def list_times(self) -> Mapping[str, float]:
        """Return the seconds of the source's operators, in a graph without fusions, in which they keep their names."""
        return self._time(self._source, "disabled")

    def _time(self, folder: Path, level: str) -> dict[str, float]:
        size = self._fixed or rows.TIMED
        count = min(size, len(next(iter(self._rows.values()))))
        feeds = rows.split_rows(self._rows, range(count), size)[0]
        times: dict[str, float] = self._open(folder, level).time_operators(feeds)
        return times

    def _open(self, folder: Path, level: str = "all") -> Any:
        given = {"path": str(folder), "run_options": {"graph_optimization": level}}
        return session.open_session({**self._job, "input": {**self._job["input"], **given}})


class _Dynamic(_Graph):
    """Weights of matrix products in int8, and their activations with ranges at run time."""

    def _prepare(self, model: Any, path: Path) -> None:
        graphs.split_gemms(model)  # the quantizer would do it, under names of its own
        graphs.stage(model, self._job, path)

    def _quantize(self, excluded: list[str], path: Path) -> None:
        options = self._job["options"]
        kinds = [node.op_type for node in self._nodes]
        quantization.quantize_dynamic(
            self._source / "model.onnx",
            path,
            op_types_to_quantize=sorted(_WEIGHTED.intersection(kinds)) or ["MatMul"],
            per_channel=options["per_channel"],
            reduce_range=options["reduce_range"],
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=excluded,
            use_external_data_format=self._large,
            extra_options={"DefaultTensorType": 1},
        )

    def _list_quantized(self, whole: Path) -> list[str]:
        left = {node.name for node in graphs.read_graph(whole).graph.node}
        return [node.name for node in self._nodes if node.op_type in _WEIGHTED and node.name not in left]


class _Static(_Graph):
    """Weights and activations in int8 in QDQ form, with ranges from one pass over the calibration data."""

    def _prepare(self, model: Any, path: Path) -> None:
        plain.prepare_static(self._job, model, path)

    def _quantize(self, excluded: list[str], path: Path) -> None:
        given = self._arguments
        extra = dict(given["extra_options"])
        for last in (False, True):
            quantizer = QDQQuantizer(
                load_model_with_shape_infer(self._source / "model.onnx"),
                given["per_channel"],
                given["reduce_range"],
                given["weight_type"],
                given["activation_type"],
                self._ranges,
                [],  # all, except those that are excluded
                excluded,
                self._kinds,
                extra,
            )
            try:
                quantizer.quantize_model()
            except ValueError as error:  # as in ``quantization``: scales with two dimensions
                if last or "truth value" not in str(error):
                    raise
                extra["QDQDisableWeightAdjustForInt32Bias"] = True
            else:
                quantizer.model.save_model_to_file(str(path), self._large)
                return

    def _list_quantized(self, whole: Path) -> list[str]:
        graph = graphs.read_graph(whole).graph
        restored = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
        own = {node.name: restored.intersection(node.input) for node in graph.node if node.op_type not in _FOLLOWERS}
        return [node.name for node in self._nodes if own.get(node.name)]

    @cached_property
    def _kinds(self) -> list[str]:
        return self._job["options"]["operators"] or sorted({*QLinearOpsRegistry, *QDQRegistry})

    @cached_property
    def _ranges(self) -> Any:
        """The ranges of all tensors, computed once for all candidates."""
        given, batches = self._arguments, plain.Batches(self._job)
        calibrator = create_calibrator(
            self._source / "model.onnx",
            self._kinds,
            augmented_model_path=str(Path(self._job["temporary"], "augmented.onnx")),
            calibrate_method=given["calibrate_method"],
            use_external_data_format=self._large,
            providers=given["calibration_providers"],
        )
        for start in range(len(batches)):  # one batch at a time, so that memory stays bounded
            batches.set_range(start, start + 1)
            calibrator.collect_data(batches)
        return calibrator.compute_data()

    @property
    def _arguments(self) -> Json:
        return plain.make_static_arguments(self._job["options"], large=self._large)


def _name_nodes(path: Path) -> list[Any]:
    """Give each node of a graph's file a name of its own, since the quantizers choose by names; return the nodes."""
    model = onnx.load(path, load_external_data=False)
    known: set[str] = set()
    for place, node in enumerate(model.graph.node):
        if not node.name or node.name in known:
            node.name = f"{node.op_type}_{place}_{node.output[0]}"
        known.add(node.name)
    onnx.save(model, path)
    return [*model.graph.node]
