"""Quantize weights and activations to int8 with NNCF: all operators, or those that the recipe's metrics allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import openvino as ov

from hone_runtime.sessions import shapes
from hone_runtime.tuning import rows
from hone_runtime.tuning.judge import Judge

from . import session

Json = dict[str, Any]

_REACH = 4  # the most operators (casts, masks, views) between an attention's softmax and its matrix product


def quantize(job: Json, output: Path) -> Json:
    """Quantize, or refuse a model in float64, or one whose operators are where NNCF finds no ranges."""
    import nncf

    model = session.read(job["input"]["path"])
    if count_quantizers(model):
        return {"nothing_to_do": "the graph is quantized already"}
    quantizer = Quantizer(job, model)
    try:
        if job["adaptor"] == "openvino.int8-ptq":
            return finish(quantizer.quantize(), output)
        if job["adaptor"] == "openvino.int8-tuned":
            from . import tuning

            return tuning.tune_model(job, quantizer, output)
        return _control_accuracy(job, quantizer, output)
    except nncf.ValidationError as error:
        if (unseen := _explain_unseen(session.read(job["input"]["path"]), error)) is None:
            raise
        return {"refused": unseen}
    except RuntimeError as error:  # accuracy control runs the partly quantized model
        if "does not support f64" not in str(error):
            raise
        return {"refused": "it computes in float64, in which OpenVINO runs no quantized operators"}


class Quantizer:
    """NNCF's quantization of a model with a job's options and calibration data.

    Attributes:
        model: The model in its own precision; it is not changed.
        fixed: The batch size, if it is fixed.
        own: The inputs that callers never pass, of a model with a cache.
        calibration: The calibration rows by input.
    """

    def __init__(self, job: Json, model: Any) -> None:
        """Read the calibration data and the options."""
        import nncf

        options, inputs = job["options"], job["input"]["inputs"]
        self.model, self.inputs = model, [spec["name"] for spec in inputs]
        self.fixed = shapes.find_fixed_batch(spec["shape"] for spec in inputs)
        stateful = bool(model.get_sinks())  # its runs add inputs of their own
        self.own = {session.find_name(port) for port in model.inputs} if stateful else set()
        self.calibration = rows.read_rows(job["calibration"], self.inputs)
        self._exclude, size = [*options["exclude"]], self.fixed or 1
        count = len(self.calibration[self.inputs[0]])
        self._batches = [session.fill(part, self.own) for part in rows.split_rows(self.calibration, range(count), size)]
        transformer = _has_attention(model) if options["transformer"] is None else options["transformer"]
        # Seven bits for all weights, or NNCF's default: seven bits for the first convolutions.
        self._fix = nncf.OverflowFix.ENABLE if options["reduce_range"] else nncf.OverflowFix.FIRST_LAYER
        self._smooth_quant = options["smooth_quant"]
        self._arguments = {
            "preset": nncf.QuantizationPreset(options["preset"]) if options["preset"] else None,
            "model_type": nncf.ModelType.TRANSFORMER if transformer else None,
            "subset_size": min(-(-options["subset_size"] // size), len(self._batches)),
            "fast_bias_correction": options["fast_bias_correction"],
        }

    def quantize(self, excluded: Iterable[str] = (), *, corrects_bias: bool = True, compressed: bool = True) -> Any:
        """Return the quantized model.

        Args:
            excluded: Operators to leave unchanged, besides those that the options exclude.
            corrects_bias: Whether biases are corrected for the mean error of their layers.
            compressed: Whether weights are stored in eight bits. Otherwise the model without its quantizers computes as
                before, unless biases were corrected.
        """
        import nncf

        advanced = self._make_advanced()
        advanced.disable_bias_correction = not corrects_bias
        advanced.backend_params = {} if compressed else {"compress_weights": False}
        given = {**self._arguments, "ignored_scope": self._ignore(excluded)}
        return nncf.quantize(self.model, nncf.Dataset(self._batches), advanced_parameters=advanced, **given)

    def control_accuracy(self, dataset: Any, measure: Callable[..., Any], *, max_drop: float) -> Any:
        """Return the model as quantized by NNCF with accuracy control."""
        import nncf

        return nncf.quantize_with_accuracy_control(
            self.model,
            calibration_dataset=nncf.Dataset(self._batches),
            validation_dataset=dataset,
            validation_fn=measure,
            max_drop=max_drop,
            advanced_quantization_parameters=self._make_advanced(),
            ignored_scope=self._ignore(()),
            **self._arguments,
        )

    def _make_advanced(self) -> Any:
        import nncf

        advanced = nncf.AdvancedQuantizationParameters(overflow_fix=self._fix)
        if self._smooth_quant is not None:
            advanced.smooth_quant_alphas = nncf.AdvancedSmoothQuantParameters(matmul=self._smooth_quant)
        return advanced

    def _ignore(self, excluded: Iterable[str]) -> Any:
        """Return NNCF's scope of unchanged operators; names that do not exist are an error, as is NNCF's default."""
        import nncf

        names = [*dict.fromkeys((*self._exclude, *excluded))]
        return nncf.IgnoredScope(names=names) if names else None


def _control_accuracy(job: Json, quantizer: Quantizer, output: Path) -> Json:
    """Quantize, then revert layers until the recipe's metric is within the option's limit."""
    import nncf

    judge, size = Judge(job["program"]), quantizer.fixed or rows.BATCH
    judge.require()
    feeds = rows.read_rows(job["program"]["feeds"], quantizer.inputs)
    count = len(feeds[quantizer.inputs[0]])

    def measure(compiled: Any, items: Iterable[int]) -> tuple[float, list[Any]]:
        """Return the metric over these rows, and NNCF's values for comparing rows: scores, or else outputs.

        A metric such as the area under a curve has no value for one row.
        """
        chosen, opened = list(items), session.Session(compiled, quantizer.model)
        outputs = rows.run_rows(opened.run, {name: array[chosen] for name, array in feeds.items()}, size)
        value, scores = judge.score(outputs, chosen)
        if scores is None:
            return value, [[outputs[name][each] for name in judge.outputs] for each in range(len(chosen))]
        return value, [*scores]

    def read(row: int) -> rows.Arrays:
        return session.fill(rows.split_rows(feeds, [row], quantizer.fixed or 1)[0], quantizer.own)

    quantized = quantizer.control_accuracy(
        nncf.Dataset(range(count), read), measure, max_drop=job["options"]["max_drop"]
    )
    return finish(quantized, output, metric=judge.metric)


def _explain_unseen(model: Any, error: Exception) -> str | None:
    """Return why NNCF finds no calibration rows though there are some: it skips operators in a subgraph body."""
    kinds = sorted({node.get_type_name() for node in model.get_ops()} & {"If", "Loop", "TensorIterator"})
    if "must not be empty" not in str(error) or not kinds:
        return None
    return f"the model has operators inside {' and '.join(kinds)}, and NNCF reads their ranges from no calibration row"


def _has_attention(model: Any) -> bool:
    """Return whether a graph has attention: its operator, or a softmax whose result enters a matrix product."""
    return any(
        kind == "ScaledDotProductAttention" or (kind == "Softmax" and _feeds(node, _REACH))
        for kind, node in ((node.get_type_name(), node) for node in model.get_ops())
    )


def _feeds(node: Any, reach: int) -> bool:
    """Return whether a node's output enters a matrix product, directly or through a few other nodes."""
    readers = [port.get_node() for output in node.outputs() for port in output.get_target_inputs()]
    return any(each.get_type_name() == "MatMul" or (reach > 1 and _feeds(each, reach - 1)) for each in readers)


def finish(model: Any, output: Path, gained: int | None = None, **metadata: Any) -> Json:
    """Save a quantized model, and return its notes; nothing is saved if no operator was quantized.

    Args:
        model: The quantized model.
        output: The folder to write to.
        gained: The number of quantized operators or weights; None counts the quantizers.
        metadata: Other notes on the model.
    """
    gained = count_quantizers(model) if gained is None else gained
    if gained <= 0:
        return {"nothing_to_do": "the quantizer took no operator of this graph"}
    ov.save_model(model, output / "model.xml", compress_to_fp16=False)
    return {"metadata": {"quantized_operators": gained, **metadata}}


def count_quantizers(model: Any) -> int:
    """Return how many operators of a model quantize a tensor."""
    return sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())
