"""Adapters of PEFT: a few weights that are added to those of another model, in separate files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Json
from hone_runtime.values.trees import copy_bounded
from kedro_hone.sources.files import make_corrupt, make_untrusted
from kedro_hone.sources.huggingface import tokenizers
from kedro_hone.sources.huggingface.documents import read_document
from kedro_hone.sources.source_format import Pulled

CONFIG: Final = "adapter_config.json"
_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")
FOLDER: Final = "adapter"
"""The folder of an adapter's files for the worker that merges it, in the folder of the base model."""
ADVICE: Final = (
    "Or merge it where it was trained, and give the folder that this writes: "
    "model = model.merge_and_unload(), and then model.save_pretrained(folder)."
)


def find_adapter(pulled: Pulled) -> Path | None:
    """Return the folder of an adapter's configuration; None if absent."""
    return next((folder for folder in _list_folders(pulled) if (folder / CONFIG).is_file()), None)


def check_weights(folder: Path) -> None:
    """Refuse an adapter without weights in safetensors.

    Raises:
        HoneError: ``pickle-not-trusted``, or ``model-corrupt``: it has no weights.
    """
    if (folder / _WEIGHTS[0]).is_file():
        return
    if (folder / _WEIGHTS[1]).is_file():
        what = f"The adapter's weights are a pickle ({_WEIGHTS[1]})."
        raise make_untrusted(what, hint="Save it again by save_pretrained, which writes safetensors.")
    raise make_corrupt(folder, f"it has no {_WEIGHTS[0]}")


def copy_adapter(folder: Path, target: Path, *, root: Path) -> None:
    """Copy the two files of an adapter into a folder, which is made; ``root`` is as for ``copy_texts``.

    Raises:
        HoneError: ``model-corrupt``: one of them is outside ``root``, or not a regular file.
    """
    target.mkdir(parents=True)
    for name in (CONFIG, _WEIGHTS[0]):
        _copy_inside(folder / name, target / name, root=root)


def copy_texts(folder: Path, target: Path, *, root: Path) -> None:
    """Copy the files of a tokenizer or a processor into a folder, replacing those in it.

    ``root`` is the pulled folder, which must contain all copied files. A link in ``target`` is replaced, and its target
    is not changed.

    Raises:
        HoneError: ``model-corrupt``: a file is outside ``root``, or cannot be copied.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file() and tokenizers.FILES.fullmatch(path.name):
            _copy_inside(path, target / path.name, root=root)


def _copy_inside(path: Path, place: Path, *, root: Path) -> None:
    source = path.resolve()
    if not source.is_relative_to(root.resolve()):
        raise make_corrupt(path, "it is a link that leads out of the model's folder")
    try:
        place.unlink(missing_ok=True)
        copy_bounded(source, place)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise make_corrupt(path, f"it cannot be copied: {error}") from error


def refuse_adapter(pulled: Pulled) -> None:
    """Refuse a model that is an adapter, or has one next to the weights of its base model.

    Raises:
        HoneError: ``model-unsupported``, with the two lines that merge it; ``model-corrupt``: its configuration is not
            JSON.
    """
    for folder in _list_folders(pulled):
        name = next((name for name in (CONFIG, *_WEIGHTS) if (folder / name).is_file()), None)
        if name is None:
            continue
        config = read_document(folder / CONFIG) if name == CONFIG else {}
        base = config.get("base_model_name_or_path")
        of = f" of {base!r:.100}" if isinstance(base, str) and base else ""
        raise HoneError(
            "model-unsupported",
            "The model is an adapter of PEFT that is not merged into its base model.",
            why=f"{name} says so: its weights{_name_kind(config)} are added to those{of}, and would be lost.",
            hint=f"Name its base model in hone.model.base, to merge them here. {ADVICE} "
            f"If the weights are merged already, remove {name}.",
        )


def _name_kind(config: dict[str, Json]) -> str:
    kind = config.get("peft_type")
    return f" ({kind!r:.40})" if isinstance(kind, str) else ""


def _list_folders(pulled: Pulled) -> Iterator[Path]:
    """Yield possible folders of an adapter's files: next to the model, or where MLflow stores one."""
    yield pulled.folder
    entry = pulled.mlmodel.flavors.get("transformers") if pulled.mlmodel else None
    if not isinstance(entry, dict):
        return
    for key in ("model_binary", "peft_adaptor"):
        named = entry.get(key)
        try:
            folder = (pulled.folder / named).resolve(strict=True) if isinstance(named, str) else pulled.folder
        except (OSError, ValueError, RuntimeError):  # missing, not a path, or a cycle of links
            continue
        if folder.is_relative_to(pulled.folder.resolve()):
            yield folder
