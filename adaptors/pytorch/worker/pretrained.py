"""Models of Transformers: opened by the author's class, and described from what the class itself does."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import models
from .models import Job, Notes, Spec

_AXES = {
    "input_ids": ("batch", "length"),
    "attention_mask": ("batch", "length"),
    "token_type_ids": ("batch", "length"),
    "decoder_input_ids": ("batch", "decoder_length"),
    "input_values": ("batch", "samples"),
}
"""Inputs with dynamic sizes besides the batch, and how these are called."""
SIZES = {"batch": 3, "length": 12, "decoder_length": 9, "samples": 4000}
_CHANGED = {"batch": 2, "length": 7, "decoder_length": 5, "samples": 5600}
"""Sizes of examples; the second ones tell which axes of the results change with which size."""
_FILLS = {"attention_mask": 1, "token_type_ids": 0}
"""What stands for an input that a caller leaves out, where the class does the same."""
_SAME = 1e-5  # of the largest result: with a mask of ones attention may add in another order
_UNREACHED = 32  # how many positions a table may have more than it serves: RoBERTa keeps 2 of 514


class Unsuited(ValueError):  # noqa: N818 - it reads as what it says
    """The model cannot be used as the recipe says; the message says why."""


def open_model(job: Job) -> nn.Module:
    """Open the model of a job by its automatic class: fp32, evaluation mode, its default attention.

    Nothing is downloaded, and no code of the repository runs unless ``trust: [remote-code]``.

    Raises:
        Unsuited: The class is unknown here, or the weights are not all there.
        PermissionError: The weights are a pickle, and the recipe does not trust it.
    """
    return _open(job)[0]


def _open(job: Job) -> tuple[nn.Module, list[str]]:
    """Return the model of a job, and the weights of a pooler that its files lack, without which it was opened."""
    folder, said = Path(job["input"]["path"]), job["input"]["metadata"]["transformers"]
    pickled = not any(folder.glob("*.safetensors"))
    if pickled and "pickle" not in job["trust"]:
        raise PermissionError("its weights are a pickle; 'trust: [pickle]' would allow it")
    auto = getattr(_import(), said["auto_class"])
    kwargs = dict(said.get("kwargs", {}))
    model, found = _load(auto, folder, job, kwargs, pickled=pickled)
    missing, pooler = sorted(found["missing_keys"]), []
    takes_none = "add_pooling_layer" in inspect.signature(type(model)).parameters
    if takes_none and missing and all(name.startswith("pooler.") for name in missing):
        pooler = missing  # many sentence encoders come without one, and the class fills it with random numbers
        model, found = _load(auto, folder, job, {**kwargs, "add_pooling_layer": False}, pickled=pickled)
        missing = sorted(found["missing_keys"])
    if missing or found["mismatched_keys"]:
        names = missing or sorted(str(key[0]) for key in found["mismatched_keys"])
        raise Unsuited(
            f"{type(model).__name__} needs weights that the model does not have ({', '.join(names[:3])}): it was "
            f"trained for another task than {said['task']}, or its configuration is another model's"
        )
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False  # what a cache returns is no tensor
    return model.eval(), pooler


def _import() -> Any:
    os.environ.setdefault("HF_MODULES_CACHE", tempfile.mkdtemp())  # where remote code is copied to before it runs
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def _load(
    auto: Any, folder: Path, job: Job, kwargs: Mapping[str, Any], *, pickled: bool
) -> tuple[nn.Module, dict[str, Any]]:
    options = {
        "local_files_only": True,
        "trust_remote_code": "remote-code" in job["trust"],
        "dtype": torch.float32,
        "use_safetensors": not pickled,
        "output_loading_info": True,
        **kwargs,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, found = auto.from_pretrained(folder, **options)
    except (ValueError, KeyError, AttributeError, ImportError, RuntimeError, TypeError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise Unsuited(f"{auto.__name__} cannot open it: {first[:400]}") from error
    return model, found


def describe(job: Job) -> Notes:
    """Return the specs of a model, the structure of its results, and what callers of its class may rely on."""
    try:
        model, pooler = _open(job)
        described = _describe(model, job)
    except Unsuited as error:
        return {"refused": str(error)}
    if pooler and "refused" not in described:
        said = f"its files lack weights of its pooler ({', '.join(pooler)}), which {type(model).__name__} would fill"
        described["warnings"] = [f"{said} with random numbers: it is opened without one, and has no pooled output"]
    return described


def _describe(model: nn.Module, job: Job) -> Notes:
    said = job["input"]["metadata"]["transformers"]
    stated = [spec for spec in job["input"]["inputs"] if spec["name"] in inspect.signature(model.forward).parameters]
    limits = find_limits(model, said["kind"])
    inputs = stated or list_inputs(model, Path(job["input"]["path"]), said["kind"])
    sizes = {name: min(size, limits.get(name, size)) for name, size in SIZES.items()}
    with torch.inference_mode():
        result = _call(model, make_examples(inputs, sizes, model))
        if refusal := models.find_refusal(result):
            return {"refused": refusal}
        changed = {
            name: _call(model, make_examples(inputs, {**sizes, name: min(size, limits.get(name, size))}, model))
            for name, size in _CHANGED.items()
            if any(name in spec["shape"] for spec in inputs)
        }
        optional = _find_optional(model, inputs, sizes)
    named = models.name_outputs(result)
    others = {name: models.name_outputs(value) for name, value in changed.items()}
    outputs = [_describe_output(name, value, sizes, others) for name, value in named.items()]
    names = _avoid([spec["name"] for spec in inputs], list(named))
    outputs = [{**spec, "name": name} for spec, name in zip(outputs, names, strict=True)]
    about = {**said, "class": type(model).__name__, "output_class": type(result).__name__, "optional": optional}
    about |= {"limits": limits} if limits else {}
    if type(model).__module__.startswith("transformers_modules."):
        about["remote_code"] = True
    return {
        "inputs": inputs,
        "outputs": outputs,
        "transformers": about,
        **models.describe_structure(result, names),
    }


def _call(model: nn.Module, feeds: Mapping[str, torch.Tensor]) -> Any:
    return model(**feeds)


def _avoid(taken: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return names for the outputs, of which none is an input's."""
    return [f"{name}_out" if name in taken else name for name in names]


def list_inputs(model: nn.Module, folder: Path, kind: str) -> list[Spec]:
    """Return the inputs of a model, in the order of its ``forward``: those that its tokenizer or processor makes."""
    parameters = inspect.signature(model.forward).parameters
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
        raise Unsuited(f"{type(model).__name__} takes neither text, nor images, nor sound by the names that are known")
    return found


def _find_names(model: nn.Module, folder: Path) -> set[str]:
    """Return the names that a tokenizer's result has; without one, those that the class has a use for."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tokenizer = _import().AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        wanted = set(tokenizer.model_input_names)
    except Exception:  # noqa: BLE001 - it raises what its many formats do; a program that needs it says so
        wanted = {"input_ids", "attention_mask"}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        wanted.add("token_type_ids")
    return wanted


def _image_spec(config: Any, folder: Path) -> Spec:
    size = getattr(config, "image_size", None)
    file = folder / "preprocessor_config.json"
    if size is None and file.is_file():
        found = json.loads(file.read_text())
        said = found.get("crop_size") if found.get("do_center_crop") else found.get("size")
        size = said if isinstance(said, int) else said and (said.get("height"), said.get("width"))
        size = size[0] if isinstance(size, tuple) and size[0] == size[1] else size
    if isinstance(size, int):
        size = (size, size)
    if not size or None in size:
        raise Unsuited("neither its configuration nor its processor says how large an image is: state its inputs")
    return {"name": "pixel_values", "dtype": "float32", "shape": ["batch", config.num_channels, *size]}


def make_examples(
    inputs: Sequence[Spec], sizes: Mapping[str, int], model: nn.Module, *, padded: bool = False
) -> dict[str, torch.Tensor]:
    """Return one tensor for each input: tokens of the vocabulary, masks of ones, noise for images and sound.

    With ``padded`` the mask leaves out the end of the first row, as in a real batch: what is traced without any would
    not look at it.
    """
    draw = torch.Generator().manual_seed(0)
    vocabulary = getattr(model.config.get_text_config(), "vocab_size", None) or 2
    padding = getattr(model.config.get_text_config(), "pad_token_id", None)
    made = {}
    for spec in inputs:
        shape = [dim if isinstance(dim, int) else sizes.get(dim, 8) for dim in spec["shape"]]
        if spec["dtype"].startswith("float"):
            made[spec["name"]] = torch.randn(shape, generator=draw)
        elif spec["name"] in _FILLS:
            made[spec["name"]] = torch.full(shape, _FILLS[spec["name"]])
            if padded and spec["name"] == "attention_mask":
                made[spec["name"]][0, -(shape[1] // 3) :] = 0
        else:
            tokens = torch.randint(0, vocabulary, shape, generator=draw)
            made[spec["name"]] = tokens if padding is None else torch.where(tokens == padding, vocabulary - 1, tokens)
    return made


def _find_optional(model: nn.Module, inputs: Sequence[Spec], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the inputs that may be left out: the results are then the same as with the number, but for rounding."""
    examples = make_examples(inputs, sizes, model)
    whole = list(models.name_outputs(_call(model, examples)).values())
    found = {}
    for name in (name for name in examples if name in _FILLS):
        try:
            rest = _call(model, {other: value for other, value in examples.items() if other != name})
        except (ValueError, TypeError, RuntimeError):  # the class needs it
            continue
        pairs = zip(whole, models.name_outputs(rest).values(), strict=True)
        if all(torch.allclose(one, other, rtol=0, atol=_SAME * float(one.abs().max())) for one, other in pairs):
            found[name] = _FILLS[name]
    return found


def _describe_output(
    name: str, value: torch.Tensor, sizes: Mapping[str, int], others: Mapping[str, Mapping[str, torch.Tensor]]
) -> Spec:
    """Return an output's spec; an axis that follows a size and is not equal to it has a name of its own."""
    shape: list[int | str] = list(value.shape)
    for dim, results in others.items():
        changed = results[name]
        for axis, size in enumerate(changed.shape):
            if size != value.shape[axis]:
                equal = value.shape[axis] == sizes[dim] and dim != "samples"
                shape[axis] = dim if equal else "frames" if dim == "samples" else f"{name}_{axis}"
    return {"name": name, "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}


def find_limits(model: nn.Module, kind: str) -> dict[str, int]:
    """Return the most tokens that a model takes, where it keeps a table of positions; nothing for relative ones.

    The table may be larger than what it serves, as RoBERTa's is, so lengths are tried from the table's down.
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
                _call(model, make_examples(base, {"batch": 1, **dict.fromkeys(dims, length)}, model))
        except (IndexError, RuntimeError, ValueError):
            continue
        return dict.fromkeys(dims, length)
    return dict.fromkeys(dims, max(1, largest - _UNREACHED))


_TABLES = frozenset({"position_embeddings", "wpe", "embed_positions", "position_embedding", "pos_embeddings"})
