"""Shared by the source formats: finding a model's files in a pulled folder by their names, and copying them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from hone_runtime.errors import HoneError
from hone_runtime.text import begin_sentence
from hone_runtime.values.base import Json
from hone_runtime.values.manifest import link_or_copy
from kedro_hone.sources.source_format import MLMODEL, Flavor, Pulled


def find_entry(pulled: Pulled, flavor: str, key: str) -> Path | None:
    """Return the target of a key of a flavor's entry in the ``MLmodel``, with links resolved; None without the entry.

    Raises:
        HoneError: ``model-corrupt``: there is no such key, or it points out of the folder or to nothing.
    """
    if pulled.mlmodel is None or flavor not in pulled.mlmodel.flavors:
        return None
    folder, entry = pulled.folder, pulled.mlmodel.flavors[flavor]
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise make_corrupt(folder / MLMODEL, f"the flavor has no {key}")
    try:
        path = (folder / value).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # missing, too long, not text, or a cycle of links
        path = None
    if path is None or not path.is_relative_to(folder.resolve()):
        raise make_corrupt(folder / MLMODEL, f"it points to {value!r:.200}, which is not in the folder")
    return path


def find_only(folder: Path, name: str) -> Path | None:
    """Return a file such as ``model.onnx`` directly in a folder, otherwise the only one with its suffix, or None."""
    found = sorted(path for path in folder.glob(f"*{Path(name).suffix}") if path.is_file())
    if folder / name in found:
        return folder / name
    return found[0] if len(found) == 1 else None


def list_pickles(folder: Path) -> list[Path]:
    """Return the files of a folder with names of pickles, sorted."""
    return sorted(path for path in folder.glob("*") if path.is_file() and path.suffix in {".pth", ".pt", ".pkl"})


def find_relative_name(folder: Path, path: Path) -> str:
    """Return a file's relative name in a pulled folder, with ``/`` between its parts."""
    return path.resolve().relative_to(folder.resolve()).as_posix()


def make_untrusted(what: str, *, hint: str) -> HoneError:
    """Return ``pickle-not-trusted``, to be raised, for weights that are a pickle (``what``); these are never opened."""
    why = "Loading a pickle runs whatever code its author put in."
    return HoneError("pickle-not-trusted", what, why=why, hint=hint)


def make_corrupt(path: Path, why: str) -> HoneError:
    """Return ``model-corrupt``, to be raised, for a file or folder; ``why`` is a clause without a full stop."""
    return HoneError(
        "model-corrupt",
        "The model that was pulled cannot be read." if path.is_dir() else f"The model in {path.name} cannot be read.",
        why=f"{begin_sentence(why)}.",
        hint="Download or log the model again.",
    )


def write_files(flavor: Flavor, pulled: Path, folder: Path) -> None:
    """Write the files of a source model from the pulled folder into another, under the names of its format.

    Large files are stored once: files in the pulled folder are linked if possible. Files of an ONNX model are copied
    (``may_share``).

    Raises:
        OSError: A file cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    share = not any(name.endswith(".onnx") for _, name in flavor.files)
    for path, name in flavor.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _put(pulled, path, folder / name, share=share)
    for name, text in flavor.texts:
        (folder / name).write_text(text, encoding="utf-8")


def list_code(pulled: Pulled, entry: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    """Return the author's code that MLflow stores next to a model (``code_paths``): pulled paths, and names.

    Raises:
        HoneError: ``model-corrupt``: it is not in the folder.
    """
    code = entry.get("code")
    if not isinstance(code, str) or not code:
        return ()
    root = (pulled.folder / code).resolve()
    if not root.is_dir() or not root.is_relative_to(pulled.folder.resolve()):
        raise make_corrupt(pulled.folder / MLMODEL, f"its code is in {code!r:.200}, which is not in the folder")
    found = (path for path in sorted(root.rglob("*.py")) if path.is_file())
    return tuple(
        (find_relative_name(pulled.folder, path), f"code/{path.relative_to(root).as_posix()}") for path in found
    )


def _put(pulled: Path, path: str | Path, place: Path, *, share: bool) -> None:
    """Link a pulled file to a place, or copy it there, such as a file at an absolute path, which its user may edit."""
    source = (pulled / path).resolve()
    if not share or Path(path).is_absolute() or not source.is_relative_to(pulled.resolve()):  # it is not ours alone
        shutil.copyfile(source, place)
    else:
        link_or_copy(source, place)
