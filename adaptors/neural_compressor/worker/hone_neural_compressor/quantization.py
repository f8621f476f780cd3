"""Quantize with ``neural_compressor.quantization.fit``, and evaluate its trials with the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from hone_onnxruntime import cached, crashes, graphs
from neural_compressor import PostTrainingQuantConfig, objective, quantization
from neural_compressor.config import AccuracyCriterion, TuningCriterion
from neural_compressor.utils.utility import set_random_seed, set_workspace

from hone_runtime.sessions import shapes
from hone_runtime.tuning.judge import Judge

Json = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]

_BATCH = 16  # rows of one call if the batch is dynamic
_SMOOTHED = {"MatMul", "Gemm"}


def transform(job: Json) -> Json:
    """Write ``model.onnx`` into the job's output, and return notes."""
    model = graphs.read(Path(job["input"]["path"]))
    present = graphs.count(model)
    if present.keys() & graphs.QUANTIZED:
        return {"nothing_to_do": "the graph is quantized already"}
    smooth = job["adaptor"] == "neural_compressor.int8-smooth"
    if refusal := _find_refusal(model, smooth=smooth):
        return {"refused": refusal}
    set_workspace(job["temporary"])
    set_random_seed(job["seed"])
    # Tuning also compares the seconds of single evaluations, so that each run would choose another configuration.
    objective.Performance.end = lambda self: self._result_list.append(1.0)
    rows = _Rows(job["calibration"], job["input"]["inputs"], count=job["options"]["subset_size"])
    metric, measure = ("", None) if smooth else _open_metric(job)
    made = quantization.fit(
        str(graphs.stage(model, job)),
        _configure(job, smooth=smooth, rows=len(rows) * rows.batch_size),
        calib_dataloader=rows,
        **({"eval_func": measure} if measure else {}),
    )
    if made is None:
        limit, trials = job["options"]["max_drop"], job["options"]["trials"]
        return {"refused": f"no configuration of {trials} that were tried kept {metric} within {limit:g} of fp32's"}
    gained = graphs.count(made.model) - present
    fresh = {name: gained[name] for name in sorted(gained) if name in graphs.QUANTIZED or name.startswith("QLinear")}
    if not fresh:
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    onnx.save(made.model, Path(job["output"]) / "model.onnx")
    return {"metadata": {"quantized_operators": fresh, **({"metric": metric} if metric else {})}}


def _find_refusal(model: Any, *, smooth: bool) -> str | None:
    present = graphs.count(model)
    if graphs.is_large(model):
        return "its weights pass 1.8 GB, and neural-compressor holds several copies of a model"
    if cached.list_cache(model):
        return "it has a cache of keys and values, which neural-compressor takes for weights"
    if smooth and not _SMOOTHED & present.keys():
        return "SmoothQuant is for MatMul and Gemm, and the graph has none"
    if smooth and "Conv" in present:
        return (
            "SmoothQuant of neural-compressor 2.6 smooths convolutions wrongly: a small network lost six points there"
        )
    return None


def _configure(job: Json, *, smooth: bool, rows: int) -> Any:
    """Return the configuration of one quantization; without a tuned metric the first one is used."""
    options = job["options"]
    recipes = {"smooth_quant": True, "smooth_quant_args": {"alpha": options["alpha"]}} if smooth else {}
    tuned: Json = {}
    if not smooth:
        tuned["tuning_criterion"] = TuningCriterion(
            strategy=options["strategy"], max_trials=options["trials"], timeout=options["seconds"]
        )
        tuned["accuracy_criterion"] = AccuracyCriterion(criterion="absolute", tolerable_loss=options["max_drop"])
    return PostTrainingQuantConfig(
        approach="static",
        quant_format="QDQ" if options["layout"] == "QDQ" else "default",
        quant_level=1,  # the named strategy, not the tool's own choice of several
        calibration_sampling_size=[rows],
        reduce_range=options["reduce_range"],
        excluded_precisions=["bf16", "fp16"],
        recipes=recipes,
        **tuned,
    )


class _Rows:
    """The calibration rows, in calls of one size; filled up with the first rows."""

    def __init__(self, path: str, inputs: list[Json], *, count: int) -> None:
        self.arrays = _read(path, inputs)
        self.batch_size = _find_size(inputs)
        self._parts = _split(min(count, _count(self.arrays)), self.batch_size)

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[tuple[Arrays, int]]:
        for rows in self._parts:
            yield {name: array[rows] for name, array in self.arrays.items()}, 0  # the label is never read


def _open_metric(job: Json) -> tuple[str, Callable[[Any], float]]:
    """Return the name of the recipe's metric, and a function that measures it; higher is better.

    Raises:
        UnsuitedError: It cannot be computed in this environment.
    """
    row, judge = job["program"], Judge(job["program"])
    judge.require()
    feeds, size = _read(row["feeds"], job["input"]["inputs"]), _find_size(job["input"]["inputs"])
    threads = ort.SessionOptions()
    threads.intra_op_num_threads = int(job["threads"])
    # Disabled for all graphs: only the metric matters here, not the speed.
    threads.add_session_config_entry("optimization.disable_specified_optimizers", crashes.LEFT_OUT)

    def measure(model: Any) -> float:
        session = ort.InferenceSession(model.SerializeToString(), threads, providers=["CPUExecutionProvider"])
        parts = [
            session.run(row["outputs"], {name: array[rows] for name, array in feeds.items()})
            for rows in _split(_count(feeds), size)
        ]
        made = (np.concatenate(each)[: _count(feeds)] for each in zip(*parts, strict=True))
        return judge.measure(dict(zip(row["outputs"], made, strict=True)))

    return judge.metric, measure


def _read(path: str, inputs: list[Json]) -> Arrays:
    with np.load(path, allow_pickle=False) as data:
        return {spec["name"]: data[spec["name"]] for spec in inputs}


def _find_size(inputs: list[Json]) -> int:
    return shapes.find_fixed_batch(spec["shape"] for spec in inputs) or _BATCH


def _count(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))


def _split(count: int, size: int) -> Any:
    """Return the row indices in parts of one size; the last part is filled up with the first rows."""
    return np.resize(np.arange(count), (-(-count // size), size))
