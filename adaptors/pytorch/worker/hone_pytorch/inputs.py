"""The inputs of a Transformers model: which inputs its class accepts, their largest lengths, and examples."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

from .models import Spec
from .pretrained import import_transformers
from .sentences import find_encoder

_AXES = {
    "input_ids": ("batch", "length"),
    "attention_mask": ("batch", "length"),
    "token_type_ids": ("batch", "length"),
    "decoder_input_ids": ("batch", "decoder_length"),
    "input_values": ("batch", "samples"),
}
"""Inputs with dynamic sizes besides the batch, and the names of these sizes."""
SIZES = {"batch": 3, "length": 12, "decoder_length": 9, "samples": 4000}
CHANGED = {"batch": 2, "length": 7, "decoder_length": 5, "samples": 5600}
"""Sizes of examples; the second sizes show which axes of the results depend on which size."""
FILLS = {"attention_mask": 1, "token_type_ids": 0}
"""The value of an omitted input, if the class uses the same default."""
_UNREACHED = 32  # positions that a table may have beyond the usable ones: RoBERTa reserves 2 of 514
_TABLES = frozenset({"position_embeddings", "wpe", "embed_positions", "position_embedding", "pos_embeddings"})


def list_inputs(model: nn.Module, folder: Path, kind: str) -> list[Spec]:
    """Return the inputs of a model, in the order of its ``forward``: the outputs of its tokenizer or processor."""
    parameters = inspect.signature(find_encoder(model).forward).parameters
    if kind == "image":
        return [_image_spec(model.config, folder)]
    if kind == "audio":
        wanted = {"input_values"}
        file = folder / "preprocessor_config.json"
        if file.is_file() and json.loads(file.read_text()).get("return_attention_mask"):
            wanted.add("attention_mask")
        shapes = {**_AXES, "attention_mask": ("batch", "samples")}
    else:
        wanted, shapes = _find_names(model, folder), _AXES
    if getattr(model.config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
        wanted.add("decoder_input_ids")
    found = [
        {"name": name, "dtype": "float32" if name == "input_values" else "int64", "shape": list(shapes[name])}
        for name in parameters
        if name in wanted and name in shapes
    ]
    if not found:
        raise UnsuitedError(
            f"{type(model).__name__} takes neither text, nor images, nor sound by the names that are known"
        )
    return found


def _find_names(model: nn.Module, folder: Path) -> set[str]:
    """Return the names in a tokenizer's result; without a tokenizer, the inputs that the class uses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokenizer = import_transformers().AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        wanted = set(tokenizer.model_input_names)
    except Exception:  # noqa: BLE001 - its many formats raise anything; programs that need it report it
        wanted = {"input_ids", "attention_mask"}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        wanted.add("token_type_ids")
    return wanted


def _image_spec(config: Any, folder: Path) -> Spec:
    size = getattr(config, "image_size", None)
    file = folder / "preprocessor_config.json"
    if size is None and file.is_file():
        found = json.loads(file.read_text())
        stated = found.get("crop_size") if found.get("do_center_crop") else found.get("size")
        size = stated if isinstance(stated, int) else stated and (stated.get("height"), stated.get("width"))
        size = size[0] if isinstance(size, tuple) and size[0] == size[1] else size
    if isinstance(size, int):
        size = (size, size)
    if not size or None in size:
        raise UnsuitedError("neither its configuration nor its processor says how large an image is: state its inputs")
    return {"name": "pixel_values", "dtype": "float32", "shape": ["batch", config.num_channels, *size]}


def make_examples(
    inputs: Sequence[Spec], sizes: Mapping[str, int], model: nn.Module, *, padded: bool = False
) -> dict[str, torch.Tensor]:
    """Return one tensor for each input: tokens of the vocabulary, masks of ones, noise for images and sound.

    With ``padded`` the mask excludes the end of the first row, as in a real batch: a trace without padding would ignore
    the mask.
    """
    draw = torch.Generator().manual_seed(0)
    vocabulary = getattr(model.config.get_text_config(), "vocab_size", None) or 2
    padding = getattr(model.config.get_text_config(), "pad_token_id", None)
    made = {}
    for spec in inputs:
        shape = [dim if isinstance(dim, int) else sizes.get(dim, 8) for dim in spec["shape"]]
        if spec["dtype"].startswith("float"):
            made[spec["name"]] = torch.randn(shape, generator=draw)
        elif spec["name"] in FILLS:
            made[spec["name"]] = torch.full(shape, FILLS[spec["name"]])
            if padded and spec["name"] == "attention_mask":
                made[spec["name"]][0, -(shape[1] // 3) :] = 0
        else:
            tokens = torch.randint(0, vocabulary, shape, generator=draw)
            made[spec["name"]] = tokens if padding is None else torch.where(tokens == padding, vocabulary - 1, tokens)
    return made


def find_limits(model: nn.Module, kind: str) -> dict[str, int]:
    """Return the largest number of tokens of a model with a table of positions; empty for relative positions.

    The table may be larger than the usable length, as in RoBERTa, so lengths are tried downwards from its size.
    """
    if kind != "text":
        return {}
    tables = [
        module.num_embeddings
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in _TABLES
    ]
    if not tables:
        return {}
    largest = min(tables)
    base = [spec for spec in list_inputs(model, Path("/nowhere"), kind) if spec["name"] != "token_type_ids"]
    dims = [dim for dim in ("length", "decoder_length") if any(dim in spec["shape"] for spec in base)]
    for length in range(largest, max(0, largest - _UNREACHED), -1):
        try:
            with torch.inference_mode():
                model(**make_examples(base, {"batch": 1, **dict.fromkeys(dims, length)}, model))
        except (IndexError, RuntimeError, ValueError):
            continue
        return dict.fromkeys(dims, length)
    return dict.fromkeys(dims, max(1, largest - _UNREACHED))
