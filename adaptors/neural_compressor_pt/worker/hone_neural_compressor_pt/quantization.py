"""Quantize an exported program by neural-compressor's PT2E quantizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hone_pytorch import steps
from neural_compressor.torch.algorithms.pt2e_quant.core import W8A8PT2EQuantizer
from neural_compressor.torch.quantization import StaticQuantConfig

Json = dict[str, Any]

_RANGES = {"minmax": "minmax", "histogram": "kl"}  # neural-compressor's name for PyTorch's HistogramObserver
_SEVEN_BITS = 127


def transform(job: Json) -> Json:
    """Write the quantized ``model.pt2`` into the job's output, and return notes."""
    return steps.write_quantized(job, _quantize, scheme=job["adaptor"])


def _quantize(model: Any, calibrate: Callable[[Any], None], options: Json) -> Any:
    config = StaticQuantConfig(act_algo=_RANGES[options["ranges"]])
    # Not by its functions prepare and convert: these retain the weights in fp32 next to their quantization.
    quantizer = (_Narrow if options["reduce_range"] else W8A8PT2EQuantizer)(config)
    model._exported = True  # noqa: SLF001 - how its own export marks a program, which would make another one
    prepared = quantizer.prepare(model)
    calibrate(prepared)
    return quantizer.convert(prepared, fold_quantize=True)


class _Narrow(W8A8PT2EQuantizer):  # type: ignore[misc]  # it has no types
    """With seven-bit activations, like PyTorch's own quantizer; neural-compressor has no setting for them."""

    @staticmethod
    def update_quantizer_based_on_quant_config(quant_config: Any = None) -> Any:
        quantizer = W8A8PT2EQuantizer.update_quantizer_based_on_quant_config(quant_config)
        config = quantizer.global_config
        narrow = replace(config.input_activation, quant_max=_SEVEN_BITS)
        return quantizer.set_global(replace(config, input_activation=narrow, output_activation=narrow))
