"""Read a ``.pt2`` archive without running any code in it.

``torch.export.load`` can run code from the file in seven ways:

- pickled tensors, constants and example inputs;
- custom objects;
- shared libraries of AOTInductor;
- symbolic expressions, which ``sympy.sympify`` evaluates;
- guards;
- names that it looks up or imports: operators in ``torch`` by attribute, classes of arguments or results, and
  enumerations among keys;
- values that ``torch.fx`` pastes into Python that it executes: names of tensors, arguments and attributes, and texts in
  place of numbers.

Inductor pastes symbols, texts and metadata into the code that it compiles.

A model from a registry may use none of these. So :mod:`schema` compares each value of the JSON with torch's own schema,
and :mod:`texts` defines the allowed texts. Torch gets a new archive with the checked content only, without guards and
example inputs: torch's and Python's archive readers do not always find the same bytes under a name.
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

from . import schema, texts

NAMES_FILE = "kedro_hone.json"
"""The extra file in which kedro-hone stores the names of a program's inputs and outputs."""

_PROGRAM = "models/model.json"
FOLDER = "model"
"""The only folder of the archive that ``copy_checked`` writes."""
WEIGHTS = "data/weights"
LIST = f"{WEIGHTS}/model_weights_config.json"
"""The list of the tensors in ``WEIGHTS``."""
_PAYLOADS = {
    LIST: r"weight_\d+",
    "data/constants/model_constants_config.json": r"tensor_\d+",
}
"""The lists of the tensors of a folder, with their names there."""
_PLAIN = {
    "archive_format": r"pt2",
    "archive_version": r"\d{1,4}",
    "byteorder": r"little|big",
    ".data/version": r"\d{1,4}\n?",
    "version": r"\d{1,4}\n?",
    ".data/serialization_id": r"\w{0,80}",
}
"""Short texts that torch's writer adds, with their allowed contents."""
_SAMPLES = "data/sample_inputs/model.pt"
"""Pickled rows. Torch does not get them; it then makes no guards, which only repeat its other checks."""
_TENSOR = re.compile(r"data/weights/weight_\d+|data/constants/tensor_\d+")
_EXTRA = "extra/"  # folder of extra files with arbitrary names; torch gets none of them
_LARGEST_JSON = 256 << 20  # limit in bytes for the program or a list; ten thousand operators need ten million

_NO_PROGRAM = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, RuntimeError, EOFError),
    *(OSError, OverflowError, struct.error),  # from an offset beyond the end of the file
)
"""Exceptions from reading a damaged or foreign file: for example, too deeply nested JSON raises RuntimeError."""


class Threat(PermissionError):  # noqa: N818 - the name of what was found
    """Loading a file could run code from it; the message is the reason."""


def read_names(path: Path) -> dict[str, Any] | None:
    """Return the specs of inputs and outputs that kedro-hone wrote into the archive; None if absent."""
    found = _read_entries(path, _EXTRA + NAMES_FILE)
    return dict(json.loads(found[0])) if found else None


def is_quantized(path: Path) -> bool:
    """Return whether the program has PT2E's quantized operators, which only torchao registers."""
    return any(b"torch.ops.quantized_decomposed." in model for model in _read_entries(path, _PROGRAM))


def _read_entries(path: Path, name: str) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        return [archive.read(each) for each in archive.namelist() if each.endswith(f"/{name}")]


def copy_checked(path: Path) -> io.BytesIO:
    """Return an archive of a program, in memory, with only the checked entries.

    Raises:
        Threat: Loading the file could run code from it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _list_entries(archive, path.stat().st_size)
            known = [name for name in (_PROGRAM, *_PAYLOADS) if name in entries]
            documents = {name: json.loads(archive.read(entries[name])) for name in known}
            _drop_unneeded(documents[_PROGRAM])
            for threat in _find_threats(archive, entries, documents):
                raise Threat(threat)
            return _copy(archive, entries, documents)
    except _NO_PROGRAM as error:
        if isinstance(error, Threat | FileNotFoundError):
            raise
        raise Threat(f"it is not an archive of an exported program: {type(error).__name__}: {error}") from error


def _list_entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name, from the archive's only folder; each must be needed, and stored under one name."""
    entries: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for info in archive.infolist():
        folder, _, name = info.filename.partition("/")
        folders.add(folder)
        if name.startswith("data/aotinductor/") or name.endswith((".so", ".dll", ".dylib")):
            raise Threat(f"it holds compiled code ({info.filename})")
        if name.rpartition("/")[2].startswith(("custom_obj_", "opaque_obj_")):
            raise Threat(f"it holds a pickled object ({info.filename})")
        known = name in {_PROGRAM, _SAMPLES, *_PAYLOADS, *_PLAIN} or _TENSOR.fullmatch(name)
        if not known and not name.startswith(_EXTRA):
            raise Threat(f"it holds an entry that is not part of an exported program ({info.filename})")
        if name in entries:
            raise Threat(f"it holds two entries of one name ({info.filename})")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise Threat(f"it holds an entry that is compressed or encrypted ({info.filename})")
        if name in {_PROGRAM, *_PAYLOADS} and info.file_size > _LARGEST_JSON:
            raise Threat(f"{info.filename} is larger than {_LARGEST_JSON >> 20} MiB")
        entries[name] = info
    if len(folders) != 1:
        raise Threat("its entries are not in one folder")
    if sum(info.file_size for info in entries.values()) > size:
        raise Threat("its entries are larger than the file")
    return entries


def _find_threats(
    archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], documents: Mapping[str, Any]
) -> Iterator[str]:
    missing = [name for name in (_PROGRAM, *_PAYLOADS, _SAMPLES) if name not in entries]
    if missing:
        yield f"it holds no exported program of a format that can be checked: {missing[0]} is missing"
    for name, pattern in _PLAIN.items():
        if name in entries and not re.fullmatch(pattern, archive.read(entries[name])[:100].decode()):
            yield f"{name} says something else than torch would write"
    yield from schema.find_program(documents[_PROGRAM])
    for name, pattern in _PAYLOADS.items():
        yield from schema.find_payloads(documents[name])
        for tensor, payload in documents[name]["config"].items():
            if payload["use_pickle"] is not False:
                yield f"it holds pickled tensors ({tensor[:80]})"
            if not re.fullmatch(pattern, payload["path_name"]):
                yield f"it holds a pickled object ({payload['path_name'][:80]})"


def _drop_unneeded(program: Any) -> None:
    """Remove guards and most metadata: torch would generate code from them, or show them, but does not need them."""
    if isinstance(program.get("guards_code"), list):
        program["guards_code"] = []
    stack = [program]
    while stack:
        value = stack.pop()
        if isinstance(value, dict) and isinstance(found := value.get("metadata"), dict):
            value["metadata"] = {name: found[name] for name in texts.METADATA & found.keys()}
        stack.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _copy(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], documents: Mapping[str, Any]) -> io.BytesIO:
    """Write the checked content into a new archive: documents from their parsed values, all else byte for byte."""
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as new:
        for name, info in entries.items():
            if not name.startswith(_EXTRA):
                content = json.dumps(documents[name]) if name in documents else archive.read(info)
                new.writestr(f"{FOLDER}/{name}", b"" if name == _SAMPLES else content)
    copy.seek(0)
    return copy


def find_result_class(path: Path) -> str | None:
    """Return the name of the author's class of a saved program's result; None if it has no such class.

    ``torch.export.load`` refuses such a file without a reason. Also None if the file is not such an archive.
    """
    try:
        graph = json.loads(_read_entries(path, _PROGRAM)[0])["graph_module"]
        return texts.find_class(graph["module_call_graph"][0]["signature"]["out_spec"])
    except (zipfile.BadZipFile, ValueError, LookupError, TypeError):
        return None
