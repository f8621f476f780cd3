"""Which files of a repository are a model's, by their names: as few as its format needs, and one kind of weights."""

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
"""A folder of a module of sentence-transformers, such as ``1_Pooling``."""
_WEIGHTS: Final = (
    # The file, its shards, and the index of these, as transformers looks for them: the first that is there.
    ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model-*-of-*.bin", "pytorch_model.bin.index.json"),
)


def is_ours(path: str) -> bool:
    """Return whether a file is one that a publication writes, and nobody else should."""
    return path in _OURS or path.startswith(_OUR_FOLDERS)


def is_authors(path: str) -> bool:
    """Return whether a file is part of the model that its author keeps in the repository."""
    return not is_ours(path) and path not in {CARD, ".gitattributes"}


def list_sources(paths: Collection[str]) -> tuple[str, ...]:
    """Return the files of a repository without those of a winner that its author has gone on from."""
    return tuple(path for path in paths if TAGS not in paths or not is_ours(path))


def choose_files(paths: Collection[str]) -> tuple[str, ...]:
    """Return the files of a source model that are needed, in sorted order.

    A repository of transformers (``config.json`` at its root) gives its texts and, for each folder, one kind of
    weights: safetensors if there are any, else ``.bin``, else ONNX files. One with an ``MLmodel`` gives everything; any
    other, such as one with ``model.onnx`` and no configuration, what is neither a card nor a picture. Of a pipeline of
    Diffusers, which is not taken, it is the index that says so, and none of its gigabytes.
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
    """Return what is needed of one folder of a repository of transformers."""
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
