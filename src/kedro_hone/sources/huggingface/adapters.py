"""Adapters of PEFT: a few weights that are added to those of another model, in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Json
from kedro_hone.sources.huggingface.documents import read_document
from kedro_hone.sources.source_format import Pulled

CONFIG: Final = "adapter_config.json"
_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")


def refuse_adapter(pulled: Pulled) -> None:
    """Refuse a model whose files are an adapter, or have one next to the weights of its base model.

    Raises:
        HoneError: ``model-unsupported``, with the two lines that merge it; ``model-corrupt``: its configuration is no
            JSON.
    """
    for folder in _list_folders(pulled):
        name = next((name for name in (CONFIG, *_WEIGHTS) if (folder / name).is_file()), None)
        if name is None:
            continue
        said = read_document(folder / CONFIG) if name == CONFIG else {}
        base = said.get("base_model_name_or_path")
        of = f" of {base!r:.100}" if isinstance(base, str) and base else ""
        raise HoneError(
            "model-unsupported",
            "The model is an adapter of PEFT that is not merged into its base model.",
            why=f"{name} says so: its weights{_name_kind(said)} are added to those{of}, and would be lost.",
            hint="Merge it where it was trained, and give the folder that this writes: "
            "model = model.merge_and_unload(), and then model.save_pretrained(folder). "
            f"If the weights are merged already, remove {name}.",
        )


def _name_kind(said: dict[str, Json]) -> str:
    kind = said.get("peft_type")
    return f" ({kind!r:.40})" if isinstance(kind, str) else ""


def _list_folders(pulled: Pulled) -> Iterator[Path]:
    """Yield where the files of an adapter may be: next to the model, or where MLflow keeps one."""
    yield pulled.folder
    entry = pulled.mlmodel.flavors.get("transformers") if pulled.mlmodel else None
    if not isinstance(entry, dict):
        return
    for key in ("model_binary", "peft_adaptor"):
        named = entry.get(key)
        folder = (pulled.folder / named).resolve() if isinstance(named, str) and len(named) < 200 else pulled.folder
        if folder.is_relative_to(pulled.folder.resolve()):
            yield folder
