"""Merge PEFT adapters into the weights of their base model: LoRA, with DoRA and its other variants.

This computes the result of PEFT's ``merge_and_unload`` without that library: ``W + s B A`` for each pair of matrices.
Layers that the adapter contains completely (``modules_to_save``) replace the base model's. An option that changes the
computation in another way is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hone_runtime.worker.refusal import UnsuitedError

from .models import Job, Notes
from .pretrained import import_transformers
from .ties import find_partners, list_ties, untie_where_different

ADAPTER = "adapter"
"""The folder of the adapter's files within that of the base model."""
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
_REPLACED = ".original_module."
"""A part of the name of a base model's weight that a module of ``modules_to_save`` replaces."""
_PARTS = re.compile(r"(?P<module>.+)\.lora_(?P<part>A|B|embedding_A|embedding_B|magnitude_vector)(\.weight)?")
_MERGED = frozenset({"lora_alpha", "alpha_pattern", "use_rslora", "use_dora", "init_lora_weights", "bias", "peft_type"})
"""Supported options, with all values or with those that are checked."""
_IN_THE_WEIGHTS = frozenset(
    {"r", "rank_pattern", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"}
    | {"modules_to_save", "fan_in_fan_out"}
)
"""Options whose effect is visible in the weights: which modules have a pair, its rank, and which are complete."""
_WITHOUT_EFFECT = frozenset(
    {"task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode"}
    | {"lora_dropout", "runtime_config"}  # of training, and of the runtime
    | {"loftq_config", "eva_config", "corda_config", "lora_ga_config"}  # only for other values of init_lora_weights
    | {"megatron_core", "qalora_group_size"}  # read only with megatron_config and use_qalora
)
_KNOWN = _MERGED | _IN_THE_WEIGHTS | _WITHOUT_EFFECT
_STARTS = (True, False, "gaussian", "orthogonal")
"""Values of ``init_lora_weights`` that do not change the base model's weights. PiSSA and others change them."""
_BIASES = ("none", "all", "lora_only")


def merge(job: Job) -> Notes:
    """Write the base model with its adapter merged, in the form of ``save_pretrained``."""
    try:
        _merge(job)
    except UnsuitedError as error:
        return {"refused": str(error)}
    return {}


def _merge(job: Job) -> None:
    folder = Path(job["input"]["path"])
    config = json.loads((folder / ADAPTER / "adapter_config.json").read_text())
    _check(config)
    state = _read_state(folder / ADAPTER / "adapter_model.safetensors")
    model, missing = _open(folder, config, state, job["input"]["metadata"]["transformers"]["auto_class"])
    before = digest(model)
    whole, changed = add(model, config, state)
    if left := missing - whole:
        names = ", ".join(sorted(left)[:3])
        raise UnsuitedError(f"{type(model).__name__} needs weights that neither has: {names}")
    after = digest(model)
    compare(before, after, changed)
    model.save_pretrained(job["output"])
    kind = type(model)
    del model  # two models would need twice the memory
    _check_written(kind, job["output"], after)


def _check(config: Mapping[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise UnsuitedError(f"it is of the type {config.get('peft_type')!r:.40}, and LORA is merged here")
    if odd := sorted(key for key in config if key not in _KNOWN and config[key]):
        raise UnsuitedError(f"its configuration has {odd[0]:.60}, which is not merged here")
    for key, usual, allowed in (("init_lora_weights", True, _STARTS), ("bias", "none", _BIASES)):
        if (value := config.get(key, usual)) not in allowed:
            raise UnsuitedError(f"its configuration has {key}: {value!r:.60}, which is not merged here")


def _read_state(path: Path) -> dict[str, Tensor]:
    """Return an adapter's weights, without those of the base model that it replaces.

    They have the names of the base model's weights. A base model's weight that nothing replaces retains its name
    ``original_module``. The base model has no such name, so merging refuses it.

    Raises:
        UnsuitedError: Two weights with the same name have different values.
    """
    from safetensors.torch import load_file

    state: dict[str, Tensor] = {}
    for name, value in load_file(path).items():
        plain = _name_as_base(name)
        if plain in state and not torch.equal(state[plain], value.float()):
            raise UnsuitedError(f"it has the weight {plain:.100} twice, with different values")
        state[plain] = value.float()
    replaced = {name for name in state if _REPLACED in name and name.replace(_REPLACED, ".") in state}
    return {name: value for name, value in state.items() if name not in replaced}


def _name_as_base(name: str) -> str:
    """Return the base model's name of an adapter's weight: PEFT adds a prefix, and wraps the weight's module."""
    name = name.removeprefix(_PREFIX)
    for added in (".default.", ".modules_to_save.", ".base_layer."):
        name = name.replace(added, ".")
    return name


def _open(folder: Path, config: Mapping[str, Any], state: Mapping[str, Tensor], own: str) -> tuple[nn.Module, set[str]]:
    """Return the base model in the class of the adapter's training, and the weights that its files lack."""
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
        message = " ".join(str(error).split())
        raise UnsuitedError(f"{name} cannot open the base model: {message:.300}") from error
    lacking = {*found["missing_keys"], *(str(key[0]) for key in found["mismatched_keys"])}
    return model.eval(), lacking


def _count_labels(state: Mapping[str, Tensor]) -> int | None:
    """Return the number of classes of the head in the adapter."""
    heads = [name for name in state if re.fullmatch(r"(.*\.)?(score|classifier|out_proj|logits_proj)\.weight", name)]
    return state[heads[-1]].shape[0] if heads else None


def add(model: nn.Module, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> tuple[set[str], set[str]]:
    """Add an adapter's weights to a model's, in place.

    Returns the names of the weights that the adapter replaces, and of all that it changed.

    Raises:
        UnsuitedError: A weight has no place in the model, has another size, or is tied to another one.
    """
    pairs: dict[str, dict[str, Tensor]] = {}
    whole = {}
    for name, value in state.items():
        if found := _PARTS.fullmatch(name):
            pairs.setdefault(found["module"], {})[found["part"]] = value
        else:
            whole[name] = value
    ties, modules = list_ties(model), dict(model.named_modules())
    for name in pairs:
        if name not in modules:
            raise UnsuitedError(f"the base model has no module {name:.100}: it is not the one that it was trained on")
        if partners := find_partners(f"{name}.weight", ties):
            raise UnsuitedError(
                f"{name:.100}.weight is tied to {partners[0]:.100} in the base model, and what a pair of matrices on "
                "one of them means for the other is not defined"
            )
    with torch.no_grad():
        # First: PEFT also saves the embedding's own weight, to which its pair is then added.
        changed = _put_whole(model, whole)
        changed |= {f"{name}.weight" for name, parts in pairs.items() if _add_pair(name, modules[name], parts, config)}
    if not pairs:
        raise UnsuitedError("it has no weights of LoRA")
    return {*whole}, changed


def _put_whole(model: nn.Module, whole: Mapping[str, Tensor]) -> set[str]:
    """Replace weights of a model, and return the names of those that changed."""
    own = _list_weights(model)
    for name, value in whole.items():
        if name not in own or own[name].shape != value.shape:
            raise UnsuitedError(f"the base model has no weight {name:.100} of the shape {tuple(value.shape)}")
        if not value.isfinite().all():
            raise UnsuitedError(f"{name:.100} has values that are not finite")
    changed = {name for name, value in whole.items() if not torch.equal(own[name].float(), value)}
    untie_where_different(model, whole)
    own = _list_weights(model)
    for name, value in whole.items():
        own[name].copy_(value)
    return changed


def _list_weights(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}


def _add_pair(name: str, module: nn.Module, parts: Mapping[str, Tensor], config: Mapping[str, Any]) -> bool:
    """Add a pair of matrices to a module's weight, and return whether that changed it."""
    embedding = "embedding_A" in parts
    first, second = (parts.get(f"embedding_{part}" if embedding else part) for part in "AB")
    if first is None or second is None or first.dim() != 2 or second.dim() != 2:
        raise UnsuitedError(f"its weights for {name:.100} are not a pair of matrices")
    if not isinstance(module, nn.Linear | nn.Embedding) and type(module).__name__ != "Conv1D":
        raise UnsuitedError(f"{name:.100} is a {type(module).__name__}, into which nothing is merged here")
    change = _scale(name, first.shape[0], config) * (second @ first)
    turned = embedding or type(module).__name__ == "Conv1D"  # their weights are transposed
    weight: Tensor = module.weight
    if (change.T if turned else change).shape != weight.shape:
        raise UnsuitedError(
            f"{name:.100} has weights of the shape {tuple(weight.shape)}: the base model is another one"
        )
    made = (weight.T if turned else weight) + change
    magnitude = parts.get("magnitude_vector")
    if (magnitude is None) is bool(config.get("use_dora")):
        raise UnsuitedError(f"its weights for {name:.100} and use_dora of its configuration do not go together")
    if magnitude is not None:
        made = magnitude.view(-1, 1) * made / made.norm(dim=1, keepdim=True)
    if not made.isfinite().all():
        raise UnsuitedError(f"{name:.100} would have weights that are not finite")
    made = made.T if turned else made
    changed = not torch.equal(weight, made)
    weight.copy_(made)
    return changed


def _scale(name: str, rank: int, config: Mapping[str, Any]) -> float:
    """Return the factor of a change; patterns give single modules another rank or another alpha."""
    alpha = _find_pattern(name, config.get("alpha_pattern"), config.get("lora_alpha", 8))
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _find_pattern(name: str, patterns: Any, usual: Any) -> Any:
    """Return the value of the first pattern that matches the end of a module's name, as in PEFT; else the default."""
    found = (value for pattern, value in (patterns or {}).items() if re.match(rf"(.*\.)?({pattern})$", name))
    return next(found, usual)


def digest(model: nn.Module) -> dict[str, str]:
    """Return a digest of the values of each weight of a model, for all its names."""
    return {name: _digest_one(value.detach()) for name, value in model.state_dict().items()}


def _digest_one(value: Tensor) -> str:
    value = value + 0.0 if value.is_floating_point() else value  # turns -0.0 into 0.0
    return hashlib.sha256(value.contiguous().flatten().view(torch.uint8).numpy()).hexdigest()


def compare(before: Mapping[str, str], after: Mapping[str, str], meant: set[str]) -> None:
    """Check that exactly the intended weights have changed.

    Raises:
        RuntimeError: Others have changed: this module has a bug.
    """
    changed = {name for name in after if before.get(name) != after[name]}
    if odd := sorted(changed ^ meant):
        what = "was not to change, and did" if odd[0] in changed else "was to change, and did not"
        raise RuntimeError(f"merging the adapter has a fault: {odd[0]} {what}")


def _check_written(kind: Any, folder: str, wanted: Mapping[str, str]) -> None:
    """Open the written model, and refuse it if it differs from the merged one."""
    options = {"local_files_only": True, "trust_remote_code": False, "weights_only": True, "dtype": torch.float32}
    found = digest(kind.from_pretrained(folder, **options))
    if odd := sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name)):
        raise UnsuitedError(f"{kind.__name__} cannot be saved as it was merged: {odd[0]:.100} is another weight then")
