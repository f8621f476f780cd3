"""Adapters of PEFT that are added to the weights of their base model: LoRA, with DoRA and its other variants.

What PEFT's ``merge_and_unload`` computes, without that library: ``W + s B A`` for each pair of matrices, and the layers
that the adapter has whole (``modules_to_save``) in the place of the base model's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .models import Job, Notes
from .pretrained import import_transformers

ADAPTER = "adapter"
"""The folder of the adapter's files in that of the base model."""
_CLASSES = {
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "TOKEN_CLS": "AutoModelForTokenClassification",
    "QUESTION_ANS": "AutoModelForQuestionAnswering",
    "CAUSAL_LM": "AutoModelForCausalLM",
    "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM",
    "FEATURE_EXTRACTION": "AutoModel",
}
_LABELS = frozenset({"SEQ_CLS", "TOKEN_CLS"})
_PREFIX = "base_model.model."
_PARTS = re.compile(r"(?P<module>.+)\.lora_(?P<part>A|B|embedding_A|embedding_B|magnitude_vector)(\.weight)?")
_UNKNOWN = ("layer_replication", "target_parameters", "megatron_config", "alora_invocation_tokens", "arrow_config")
"""Keys of a configuration that change what is computed, and are not merged here."""


class UnmergeableError(ValueError):
    """The adapter cannot be merged into the base model; the message is the reason."""


def merge(job: Job) -> Notes:
    """Write the base model with its adapter merged, as ``save_pretrained`` writes it."""
    folder = Path(job["input"]["path"])
    try:
        config = json.loads((folder / ADAPTER / "adapter_config.json").read_text())
        _check(config)
        state = _read_state(folder / ADAPTER / "adapter_model.safetensors")
        model, missing = _open(folder, config, state, job["input"]["metadata"]["transformers"]["auto_class"])
        left = missing - add(model, config, state)
    except UnmergeableError as error:
        return {"refused": str(error)}
    if left:
        return {"refused": f"{type(model).__name__} needs weights that neither has: {', '.join(sorted(left)[:3])}"}
    model.save_pretrained(job["output"])
    return {}


def _check(config: Mapping[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise UnmergeableError(f"it is of the type {config.get('peft_type')!r:.40}, and LORA is merged here")
    if odd := [key for key in _UNKNOWN if config.get(key)]:
        raise UnmergeableError(f"its configuration has {odd[0]}, which is not merged here")


def _read_state(path: Path) -> dict[str, Tensor]:
    """Return the adapter's weights by the names of the base model's modules."""
    from safetensors.torch import load_file

    state = {}
    for name, value in load_file(path).items():
        plain = name.removeprefix(_PREFIX).replace(".modules_to_save.default.", ".").replace(".modules_to_save.", ".")
        state[plain.replace(".default.", ".").replace(".base_layer.", ".")] = value.float()
    return state


def _open(folder: Path, config: Mapping[str, Any], state: Mapping[str, Tensor], own: str) -> tuple[nn.Module, set[str]]:
    """Return the base model by the class that the adapter was trained with, and the weights that its files lack."""
    task = config.get("task_type")
    name = _CLASSES.get(str(task), own)
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "weights_only": True}
    options |= {"dtype": torch.float32, "ignore_mismatched_sizes": True, "output_loading_info": True}
    if task in _LABELS and (labels := _count_labels(state)):
        options["num_labels"] = labels
    try:
        auto = getattr(import_transformers(), name)
        model, found = auto.from_pretrained(folder, **options)
    except (ValueError, KeyError, AttributeError, ImportError, RuntimeError, TypeError) as error:
        said = " ".join(str(error).split())
        raise UnmergeableError(f"{name} cannot open the base model: {said:.300}") from error
    lacking = {*found["missing_keys"], *(str(key[0]) for key in found["mismatched_keys"])}
    return model.eval(), lacking


def _count_labels(state: Mapping[str, Tensor]) -> int | None:
    """Return how many classes the head has that came with the adapter."""
    heads = [name for name in state if re.fullmatch(r"(.*\.)?(score|classifier|out_proj|logits_proj)\.weight", name)]
    return state[heads[-1]].shape[0] if heads else None


def add(model: nn.Module, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> set[str]:
    """Add an adapter's weights to a model's, in place, and return the names of those that it brought whole.

    Raises:
        UnmergeableError: A weight has no place in the model, or is of another size.
    """
    pairs: dict[str, dict[str, Tensor]] = {}
    whole = {}
    for name, value in state.items():
        if found := _PARTS.fullmatch(name):
            pairs.setdefault(found["module"], {})[found["part"]] = value
        else:
            whole[name] = value
    modules = dict(model.named_modules())
    parameters = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, parts in pairs.items():
            if name not in modules:
                raise UnmergeableError(
                    f"the base model has no module {name:.100}: it is not the one that it was trained on"
                )
            _add_pair(name, modules[name], parts, config)
        for name, value in whole.items():
            if name not in parameters or parameters[name].shape != value.shape:
                raise UnmergeableError(f"the base model has no weight {name:.100} of the shape {tuple(value.shape)}")
            parameters[name].copy_(value)
    if not pairs:
        raise UnmergeableError("it has no weights of LoRA")
    return {*whole}


def _add_pair(name: str, module: nn.Module, parts: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    embedding = "embedding_A" in parts
    first, second = (parts.get(f"embedding_{part}" if embedding else part) for part in "AB")
    if first is None or second is None or first.dim() != 2 or second.dim() != 2:
        raise UnmergeableError(f"its weights for {name:.100} are no pair of matrices")
    if not isinstance(module, nn.Linear | nn.Embedding) and type(module).__name__ != "Conv1D":
        raise UnmergeableError(f"{name:.100} is a {type(module).__name__}, into which nothing is merged here")
    change = _scale(name, first.shape[0], config) * (second @ first)
    turned = embedding or type(module).__name__ == "Conv1D"  # which keep their weights the other way round
    weight: Tensor = module.weight
    if (change.T if turned else change).shape != weight.shape:
        raise UnmergeableError(
            f"{name:.100} has weights of the shape {tuple(weight.shape)}: the base model is another one"
        )
    made = (weight.T if turned else weight) + change
    if (magnitude := parts.get("magnitude_vector")) is not None:  # DoRA
        made = magnitude.view(-1, 1) * made / made.norm(dim=1, keepdim=True)
    weight.copy_(made.T if turned else made)


def _scale(name: str, rank: int, config: Mapping[str, Any]) -> float:
    """Return what a change is multiplied by; patterns give single modules another rank or another alpha."""
    alpha = _find_pattern(name, config.get("alpha_pattern"), config.get("lora_alpha", 8))
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _find_pattern(name: str, patterns: Any, usual: Any) -> Any:
    """Return the value of the first pattern that ends a module's name, as PEFT looks for it; else the usual one."""
    found = (value for pattern, value in (patterns or {}).items() if re.match(rf"(.*\.)?({pattern})$", name))
    return next(found, usual)
