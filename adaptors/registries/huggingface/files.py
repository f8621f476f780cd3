"""Select the model's files in a repository by their names: as few as its format needs, one kind of weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Final

from hone_runtime.contract.proof import EVIDENCE_FOLDER
from hone_runtime.signing.policy import SIGNATURE, VERSION_FILES
from kedro_hone.sources.formats import diffusers
from kedro_hone.sources.source_format import MLMODEL

CARD: Final = "README.md"
TAGS: Final = "hone.json"
"""The file with a published winner's tags, and the names of its files."""
_OURS: Final = frozenset(
    {
        MLMODEL,
        SIGNATURE,
        VERSION_FILES,
        TAGS,
        "conda.yaml",
        "python_env.yaml",
        "requirements.txt",
        "input_example.json",
        "serving_input_example.json",
    }
)
_OUR_FOLDERS: Final = ("artifact/", f"{EVIDENCE_FOLDER}/")
_NO_MODEL: Final = (".gitattributes", ".gitignore", CARD, "LICENSE*", "*.md", "*.png", "*.jpg", "*.jpeg", "*.gif")
_ONNX: Final = ("*.onnx", "*.onnx?data")
_OTHER_FRAMEWORKS: Final = ("*.h5", "*.msgpack", "*.ot", "*.gguf", "*.tflite", "*.mlmodel", *_ONNX)
_TRAINING: Final = ("training_args.bin", "optimizer.*", "scheduler.*", "rng_state*", "trainer_state.json", "events.*")
_MODULE: Final = re.compile(r"\d+_[A-Za-z]+")
"""A folder with a module of sentence-transformers, such as ``1_Pooling``."""
_WEIGHTS: Final = (
    # The file, its shards, and their index, in transformers' search order: the first one that exists.
    ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model-*-of-*.bin", "pytorch_model.bin.index.json"),
)


def is_ours(path: str) -> bool:
    """Return whether only publications should write a file of this name."""
    return path in _OURS or path.startswith(_OUR_FOLDERS)


def is_authors(path: str) -> bool:
    """Return whether a file belongs to the model that the author has in the repository."""
    return not is_ours(path) and path not in {CARD, ".gitattributes"}


def list_sources(paths: Collection[str]) -> tuple[str, ...]:
    """Return the files of a repository without those of a winner whose model its author has changed since."""
    return tuple(path for path in paths if TAGS not in paths or not is_ours(path))


def choose_files(paths: Collection[str]) -> tuple[str, ...]:
    """Return the required files of a source model, sorted.

    For a repository of transformers (``config.json`` at its root), these are its texts and, for each folder, one kind
    of weights. That is safetensors if there are any, else ``.bin``, else ONNX files. For one with an ``MLmodel``, these
    are all files. For others, such as one with ``model.onnx`` and no configuration, these are all files except cards
    and pictures. A Diffusers pipeline is refused later because of its index, so only the index is selected, and none of
    its gigabytes.
    """
    if MLMODEL in paths:
        return tuple(sorted(set(paths) - {".gitattributes", CARD}))
    if diffusers.INDEX in paths and "config.json" not in paths:
        return (diffusers.INDEX,)
    if "config.json" not in paths:
        return tuple(sorted(path for path in paths if not _fits(path, _NO_MODEL)))
    chosen: list[str] = []
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(str(PurePosixPath(path).parent), []).append(path)
    for folder, found in folders.items():
        if folder == "." or _MODULE.fullmatch(folder):
            chosen += _choose_in(found)
    return tuple(sorted(chosen))


def _choose_in(paths: list[str]) -> Iterable[str]:
    """Return the required files of one folder in a repository of transformers."""
    weights = {path for path in paths if _fits(path, ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.index.json"))}
    rest = [path for path in paths if path not in weights]
    kept = [path for path in rest if not _fits(path, _NO_MODEL + _OTHER_FRAMEWORKS + _TRAINING)]
    return [*kept, *(_choose_weights(sorted(weights)) or [path for path in rest if _fits(path, _ONNX)])]


def _choose_weights(paths: list[str]) -> list[str]:
    for whole, shards, index in _WEIGHTS:
        if single := [path for path in paths if PurePosixPath(path).name == whole]:
            return single
        if any(PurePosixPath(path).name == index for path in paths):
            return [path for path in paths if _fits(path, (shards, index))]
    for suffix in (".safetensors", ".bin"):
        found = [path for path in paths if path.endswith(suffix) and not _fits(path, _TRAINING)]
        if found:
            return found
    return []


def _fits(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(PurePosixPath(path).name, pattern) for pattern in patterns)
