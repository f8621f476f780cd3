"""Models of Transformers, opened by the author's class."""

from __future__ import annotations

import importlib
import inspect
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

from . import adapters, sentences
from .models import Job


def open_model(job: Job) -> nn.Module:
    """Open the model of a job with its automatic class, in fp32 and evaluation mode, with its default attention.

    Nothing is downloaded, and no code of the repository runs unless ``trust: [remote-code]``.

    Raises:
        UnsuitedError: The class is unknown here, or weights are missing.
        PermissionError: The weights are a pickle, and the recipe does not trust it.
    """
    return open_with_notes(job)[0]


def open_with_notes(job: Job) -> tuple[nn.Module, list[str]]:
    """Return the model of a job, and warnings about weights that its files lack and weights that its class ignores.

    If the files lack a pooler's weights, the model is opened without a pooler.

    Raises:
        UnsuitedError: As in ``open_model``.
        UnmergedError: The model's weights include an adapter's.
        PermissionError: As in ``open_model``.
    """
    folder, facts = Path(job["input"]["path"]), job["input"]["metadata"]["transformers"]
    pickled = not any(folder.glob("*.safetensors"))
    if pickled and "pickle" not in job["trust"]:
        raise PermissionError("its weights are a pickle; 'trust: [pickle]' would allow it")
    auto = getattr(import_transformers(), facts["auto_class"])
    model, found = _load(auto, folder, job, {}, pickled=pickled)
    adapters.refuse(found["unexpected_keys"])
    missing, pooler = sorted(found["missing_keys"]), []
    takes_none = "add_pooling_layer" in inspect.signature(type(model)).parameters
    if takes_none and missing and all(name.startswith("pooler.") for name in missing):
        pooler = missing  # many sentence encoders have none, and the class would fill it with random numbers
        model, found = _load(auto, folder, job, {"add_pooling_layer": False}, pickled=pickled)
        missing = sorted(found["missing_keys"])
    if missing or found["mismatched_keys"]:
        names = missing or sorted(str(key[0]) for key in found["mismatched_keys"])
        raise UnsuitedError(
            f"{type(model).__name__} needs weights that the model does not have ({', '.join(names[:3])}): it was "
            f"trained for another task than {facts['task']}, or its configuration is another model's"
        )
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False  # the result with a cache is not a tensor
    notes = [*_warn(type(model).__name__, pooler=pooler, unused=sorted(found["unexpected_keys"]))]
    listed = facts.get("modules")
    model = model.eval()
    return sentences.wrap(model, folder, listed) if listed else model, notes


def _warn(name: str, *, pooler: list[str], unused: list[str]) -> Iterator[str]:
    if pooler:
        warning = f"its files lack weights of its pooler ({', '.join(pooler)}), which {name} would fill"
        yield f"{warning} with random numbers: it is opened without one, and has no pooled output"
    if unused:
        more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        yield f"its files have weights that {name} does not use: {', '.join(unused[:5])}{more}"


def import_transformers() -> Any:
    """Return the package, without messages and network access."""
    os.environ.setdefault("HF_MODULES_CACHE", tempfile.mkdtemp())  # remote code is copied there before it runs
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def _load(
    auto: Any, folder: Path, job: Job, kwargs: Mapping[str, Any], *, pickled: bool
) -> tuple[nn.Module, dict[str, Any]]:
    options = {
        **kwargs,
        "local_files_only": True,  # the protective options come last, so that no model can replace them
        "trust_remote_code": "remote-code" in job["trust"],
        "dtype": torch.float32,
        "use_safetensors": not pickled,
        "weights_only": True,
        "output_loading_info": True,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, found = auto.from_pretrained(folder, **options)
    except (ValueError, KeyError, AttributeError, ImportError, RuntimeError, TypeError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UnsuitedError(f"{auto.__name__} cannot open it: {first[:400]}") from error
    return model, found
