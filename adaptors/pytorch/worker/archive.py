"""Read a ``.pt2`` archive without running anything that it holds.

``torch.export.load`` can run code from the file in six ways: pickled tensors and constants, custom objects,
shared libraries of AOTInductor, symbolic expressions (``sympy.sympify`` evaluates them) and guards, names that it
looks up or imports (operators in ``torch`` by attribute, classes of arguments or results, enumerations among keys),
and names of tensors, arguments and attributes, which ``torch.fx`` pastes into Python that it executes (texts among the
inputs, too). Inductor pastes symbols, texts and metadata into what it compiles.
A model from a registry may use none of them. So the archive is checked here, with the standard library alone, and torch
gets a new one that holds what was checked and nothing else: torch's reader of archives and Python's do not always find
the same bytes under a name, and torch reads entries and formats that nothing needs.
"""

from __future__ import annotations

import ast
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import texts

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
_EXTRA = "extra/"  # where files for others are, of any name; torch gets none of them
_LARGEST_JSON = 256 << 20  # bytes of the program or a list; that of ten thousand operators has ten million

_NO_PROGRAM = (
    *(zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, RuntimeError, EOFError),
    *(OSError, OverflowError, struct.error),  # places in the file that are not
)
"""What reading raises; among the RuntimeErrors are those of too deep JSON, and of another version of the format."""

_TARGET = re.compile(
    r"(?!torch\.ops\.aten\.from_file)"
    r"torch\.ops\.(aten|prims|higher_order|quantized|quantized_decomposed|onednn|torchao|torchvision)"
    r"\.(_?[A-Za-z0-9]\w*|__i?(and|or|xor|lshift|rshift)__)(\.[A-Za-z]\w*)?"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|torch\._?sym_\w+|math\.[a-z]\w*"
)
_EXPRESSION_CALLS = frozenset(
    """Symbol Integer Rational Float Add Mul Pow Max Min Mod PythonMod FloorDiv CeilDiv CleanDiv floor ceiling Abs
    Piecewise Eq Ne Lt Le Gt Ge And Or Not TruncToInt TruncToFloat CeilToInt FloorToInt RoundToInt RoundDecimal ToFloat
    IntTrueDiv FloatTrueDiv PowByNatural FloatPow Where Identity ModularIndexing size stride storage_offset
    StrictGreaterThan GreaterThan StrictLessThan LessThan Equality Unequality
    max min abs int float round ceil trunc sqrt isnan""".split()  # noqa: SIM905 - a list of words
)
_EXPRESSION_NODES = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Tuple,
    ast.keyword, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_TREE_TYPES = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})


class Threat(PermissionError):  # noqa: N818 - it reads as what it says
    """Loading a file could run code from it; the message says why."""


def read_names(path: Path) -> dict[str, Any] | None:
    """Return the specs that we kept in the archive, or None when other software wrote it."""
    found = _read_entries(path, _EXTRA + NAMES_FILE)
    return dict(json.loads(found[0])) if found else None


def is_quantized(path: Path) -> bool:
    """Whether the program holds PT2E's quantized operators, which only torchao registers."""
    return any(b"torch.ops.quantized_decomposed." in model for model in _read_entries(path, _PROGRAM))


def _read_entries(path: Path, name: str) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        return [archive.read(each) for each in archive.namelist() if each.endswith(f"/{name}")]


def copy_checked(path: Path) -> io.BytesIO:
    """Return an archive of a program, in memory, with the entries that were checked and nothing else.

    Raises:
        Threat: Loading the file could run code from it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _list_entries(archive, path.stat().st_size)
            known = [name for name in (_PROGRAM, *_PAYLOADS) if name in entries]
            documents = {name: json.loads(archive.read(entries[name])) for name in known}
            for threat in _find_threats(archive, entries, documents):
                raise Threat(threat)
            for key, value in texts.walk(documents[_PROGRAM]):
                for name in texts.ORIGINS if key == "metadata" and isinstance(value, dict) else ():
                    value.pop(name, None)
            return _copy(archive, entries, documents)
    except _NO_PROGRAM as error:
        if isinstance(error, Threat | FileNotFoundError):
            raise
        raise Threat(f"it is not an archive of an exported program: {type(error).__name__}: {error}") from error


def _list_entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by their names in the one folder, all of which are needed and found under one name only."""
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
            raise Threat(f"it holds an entry that is no part of an exported program ({info.filename})")
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
    for name, pattern in _PAYLOADS.items():
        for tensor, payload in documents[name]["config"].items():
            if not texts.is_attribute(tensor):
                yield f"{tensor[:80]!r} is not a name of a tensor"
            if payload["use_pickle"] is not False:
                yield f"it holds pickled tensors ({tensor[:80]})"
            if not re.fullmatch(pattern, payload["path_name"]):
                yield f"it holds a pickled object ({payload['path_name'][:80]})"
    for document in documents.values():
        yield from _find_calls(document)


def _find_calls(program: dict[str, Any]) -> Iterator[str]:
    """Yield what torch would run as code, or import, when it loads a program with this JSON."""
    for guard in program.get("guards_code") or ():
        if not _is_plain_expression(guard):
            yield f"its guard {guard[:80]!r} is more than a comparison of sizes"
    for symbol in program.get("range_constraints", {}):
        if not texts.NAME.fullmatch(symbol):
            yield f"its symbol {symbol[:80]!r} is not a name"
    yield from texts.find_misplaced(program)
    for key, value in texts.walk(program):
        yield from texts.find_pasted(key, value)
        if key in {"target", "as_operator"} and isinstance(value, str) and not _TARGET.fullmatch(value):
            yield f"it calls {value[:80]!r}, which is no tensor operator"
        if key == "expr_str" and not _is_plain_expression(str(value)):
            yield f"its size {str(value)[:80]!r} is more than an expression"
        if key in ("in_spec", "out_spec") and isinstance(value, str) and _find_class(value) is not None:
            yield "its arguments or results are of a class that would have to be imported"


def _is_plain_expression(text: str) -> bool:
    """Whether a text is arithmetic on sizes: known functions, and strings only as names of symbols or in ``L['x']``."""
    try:
        nodes = [*ast.walk(ast.parse(text, mode="eval"))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
            names.update(map(id, node.args))

    def is_plain(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)):
                return name in _EXPRESSION_CALLS
            case ast.Attribute(attr=name):
                return name in _EXPRESSION_CALLS | {"inf"}
            case ast.Name(name):
                return "__" not in name
            case ast.Constant(str(text)):  # torch writes it again, between quotes of its own choice
                return id(node) in names and texts.NAME.fullmatch(text) is not None
            case ast.Constant(int() | float() | None):
                return True
        return isinstance(node, _EXPRESSION_NODES)

    return all(map(is_plain, nodes))


def _find_class(spec: str) -> str | None:
    """Return the first class in a tree of arguments or results that is no plain container, or what else is odd."""
    try:
        tree = json.loads(spec) if spec else None
        keys = [*texts.list_keys(spec)]
    except (ValueError, TypeError):
        return spec
    types = (value for key, value in texts.walk(tree) if key == "type" and not isinstance(value, dict))
    if unknown := next((str(name) for name in types if name not in _TREE_TYPES), None):
        return unknown
    return None if all(isinstance(key, str | int | float | None) for each in keys for key in each) else "a key"


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
        graph = json.loads(_read_entries(path, _PROGRAM)[0])["graph_module"]
        return _find_class(graph["module_call_graph"][0]["signature"]["out_spec"])
    except (zipfile.BadZipFile, ValueError, LookupError, TypeError):
        return None
