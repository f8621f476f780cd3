"""Read a ``.pt2`` archive without running anything that it holds.

``torch.export.load`` can run code from the file in five ways: pickled tensors and constants, custom objects,
shared libraries of AOTInductor, symbolic expressions, and operator names that are looked up in ``torch`` by attribute.
A model from a registry may use none of them. So the archive is checked here, with the standard library alone, and torch
gets a new one that holds what was checked and nothing else: torch's reader of archives and Python's do not always find
the same bytes under a name, and torch reads entries and formats that nothing needs.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import program

NAMES_FILE = "kedro_hone.json"
"""The extra file in which we keep the names of a program's inputs and outputs."""

_PROGRAM = "models/model.json"
_PAYLOADS = {
    "data/weights/model_weights_config.json": r"weight_\d+",
    "data/constants/model_constants_config.json": r"tensor_\d+",
}
"""What lists the tensors of a folder, and the names that they have there."""
_PLAIN = {
    "archive_format": r"pt2",
    "archive_version": r"\d{1,4}",
    "byteorder": r"little|big",
    ".data/version": r"\d{1,4}\n?",
    "version": r"\d{1,4}\n?",
    ".data/serialization_id": r"\w{0,80}",
}
"""Short texts that torch's writer adds, and what they may say."""
_SAMPLES = "data/sample_inputs/model.pt"
"""Pickled rows, which torch reads without running them under ``TORCH_FORCE_WEIGHTS_ONLY_LOAD`` only."""
_TENSOR = re.compile(r"data/weights/weight_\d+|data/constants/tensor_\d+")
_EXTRA = "extra/"
"""Where files for others are, of any name. Torch gets none of them."""
_NO_PROGRAM = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, RecursionError, EOFError),
    *(OSError, OverflowError, struct.error),  # places in the file that are not
    NotImplementedError,  # another version of the format of archives
)
_LARGEST_JSON = 256 << 20
"""Bytes of the program's or a list's JSON; that of a model of ten thousand operators has ten million."""


class Threat(PermissionError):  # noqa: N818 - it reads as what it says
    """Loading a file could run code from it; the message says why."""


def read_names(path: Path) -> dict[str, Any] | None:
    """Return the specs that we kept in the archive, or None when other software wrote it."""
    with zipfile.ZipFile(path) as archive:
        name = next((name for name in archive.namelist() if name.endswith(f"/extra/{NAMES_FILE}")), None)
        return dict(json.loads(archive.read(name))) if name else None


def is_quantized(path: Path) -> bool:
    """Whether the program holds PT2E's quantized operators, which only torchao registers."""
    with zipfile.ZipFile(path) as archive:
        models = [archive.read(name) for name in archive.namelist() if name.endswith(f"/{_PROGRAM}")]
    return any(b"torch.ops.quantized_decomposed." in model for model in models)


def copy_checked(path: Path) -> io.BytesIO:
    """Return an archive of a program, in memory, with the entries that were checked and nothing else.

    Raises:
        Threat: Loading the file could run code from it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _list_entries(archive, path.stat().st_size)
            documents = {name: _read_json(archive, entries[name]) for name in (_PROGRAM, *_PAYLOADS) if name in entries}
            for threat in _find_threats(archive, entries, documents):
                raise Threat(threat)
            return _copy(archive, entries, documents)
    except _NO_PROGRAM as error:
        if isinstance(error, Threat | FileNotFoundError):
            raise
        raise Threat(f"it is not an archive of an exported program: {type(error).__name__}: {error}") from error


def _list_entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by their names below the archive's one folder.

    Raises:
        Threat: There is one that could be found under another's name, or that nothing needs.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for info in archive.infolist():
        folder, _, name = info.filename.partition("/")
        folders.add(folder)
        if name.startswith("data/aotinductor/") or name.endswith((".so", ".dll", ".dylib")):
            raise Threat(f"it holds compiled code ({info.filename})")
        if name.rpartition("/")[2].startswith(("custom_obj_", "opaque_obj_")):
            raise Threat(f"it holds a pickled object ({info.filename})")
        if not (
            name in {_PROGRAM, _SAMPLES, *_PAYLOADS, *_PLAIN} or _TENSOR.fullmatch(name) or name.startswith(_EXTRA)
        ):
            raise Threat(f"it holds an entry that is no part of an exported program ({info.filename})")
        if name in entries:
            raise Threat(f"it holds two entries of one name ({info.filename})")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise Threat(f"it holds an entry that is compressed or encrypted ({info.filename})")
        entries[name] = info
    if len(folders) != 1:
        raise Threat("its entries are not in one folder")
    if sum(info.file_size for info in entries.values()) > size:
        raise Threat("its entries are larger than the file")
    return entries


def _read_json(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    if info.file_size > _LARGEST_JSON:
        raise Threat(f"{info.filename} is larger than {_LARGEST_JSON >> 20} MiB")
    return json.loads(archive.read(info))


def _find_threats(
    archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], documents: Mapping[str, Any]
) -> Iterator[str]:
    missing = [name for name in (_PROGRAM, *_PAYLOADS, _SAMPLES) if name not in entries]
    if missing:
        yield f"it holds no exported program of a format that can be checked: {missing[0]} is missing"
    for name, pattern in _PLAIN.items():
        if name in entries and not re.fullmatch(pattern, archive.read(entries[name])[:100].decode()):
            yield f"{name} says something else than torch would write"
    for name, pattern in _PAYLOADS.items():
        for tensor, payload in documents[name]["config"].items():
            if payload["use_pickle"] is not False:
                yield f"it holds pickled tensors ({tensor[:80]})"
            if not re.fullmatch(pattern, payload["path_name"]):
                yield f"it holds a pickled object ({payload['path_name'][:80]})"
    for document in documents.values():
        yield from program.find_threats(document)


def _copy(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], documents: Mapping[str, Any]) -> io.BytesIO:
    """Write what was checked into a new archive: documents from their parsed values, all else byte for byte."""
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as new:
        for name, info in entries.items():
            if not name.startswith(_EXTRA):
                new.writestr(f"model/{name}", json.dumps(documents[name]) if name in documents else archive.read(info))
    copy.seek(0)
    return copy


def find_result_class(path: Path) -> str | None:
    """Return the name of the author's class that a saved program's result is of; None where it is of none.

    ``torch.export.load`` refuses such a file without saying why. None, too, for a file that is no such archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            text = next(archive.read(name) for name in archive.namelist() if name.endswith("/models/model.json"))
        return program.find_class(json.loads(text)["graph_module"]["module_call_graph"][0]["signature"]["out_spec"])
    except (zipfile.BadZipFile, ValueError, KeyError, IndexError, TypeError, StopIteration):
        return None
