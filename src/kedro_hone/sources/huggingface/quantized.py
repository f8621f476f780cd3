"""Checkpoints with weights packed into few bits by a library: only that library, often only on a GPU, reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Json
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.huggingface import weights

_KEYS: Final = ("quantization_config", "compression_config")
_NAMES: Final = {
    "bitsandbytes": "bitsandbytes",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "gptq": "GPTQ",
    "awq": "AWQ",
    "auto-round": "AutoRound",
    "compressed-tensors": "compressed-tensors",
    "hqq": "HQQ",
    "quanto": "Quanto",
    "torchao": "torchao",
    "fp8": "FP8",
    "fbgemm_fp8": "FBGEMM's FP8",
    "mxfp4": "MXFP4",
}
"""The names of methods in configurations, with their usual names."""
_FILES: Final = {"quantize_config.json": "GPTQ", "quant_config.json": "AWQ"}
"""Files of older tools, before the method was in the configuration."""
_TENSORS: Final = {
    "bitsandbytes": re.compile(
        r".*\.(SCB|absmax|quant_map|nested_absmax|weight_format|quant_state\.bitsandbytes__\w+)"
    ),
    "GPTQ or AWQ": re.compile(r".*\.(qweight|qzeros|g_idx)"),
}


def refuse_quantized(root: Path, config: Mapping[str, Json], heavy: Sequence[str]) -> None:
    """Refuse a model with packed weights, by its configuration, a file next to it, or the name of a tensor.

    Raises:
        HoneError: ``model-unsupported``, with the method; ``model-corrupt``: the weights are not safetensors.
    """
    method, evidence = _find_method(root, config, heavy)
    if not method:
        return
    raise HoneError(
        "model-unsupported",
        f"The model's weights were quantized by {method}.",
        why=f"{evidence}: packed numbers are read by that library alone, and no converter takes them.",
        hint="Name the model that it was made from, with weights in fp32, fp16 or bf16; kedro-hone quantizes it.",
    )


def _find_method(root: Path, config: Mapping[str, Json], heavy: Sequence[str]) -> tuple[str, str]:
    for key in _KEYS:
        section = config.get(key)
        if isinstance(section, dict) and section:
            return _name_method(section), f"Its config.json has {key}"
    for name, method in _FILES.items():
        if (root / name).is_file():
            return method, f"It has {name}"
    names = _list_tensors(root, heavy)
    for method, pattern in _TENSORS.items():
        if found := next(filter(pattern.fullmatch, names), None):
            return method, f"Its weights have {found[:80]}"
    return "", ""


def _name_method(section: Mapping[str, Json]) -> str:
    method = section.get("quant_method")
    if not isinstance(method, str):  # as written by old versions of Transformers
        return (
            "bitsandbytes" if section.keys() & {"load_in_8bit", "load_in_4bit"} else "a library that it does not name"
        )
    bits = section.get("bits")
    known = _NAMES.get(method.lower(), repr(method[:40]))
    return f"{known} ({bits} bits)" if type(bits) is int and 0 < bits < 64 else known


def _list_tensors(root: Path, heavy: Sequence[str]) -> list[str]:
    try:
        return [
            tensor.name
            for name in heavy
            if name.endswith(".safetensors")
            for tensor in weights.read_tensors(root / name)
        ]
    except ValueError as error:
        raise make_corrupt(root, f"its weights are not safetensors: {error}") from error
