"""Read a ``.pt2`` archive without running anything that it holds.

``torch.export.load`` can run code from the file in five ways: pickled tensors and constants, custom objects,
shared libraries of AOTInductor, symbolic expressions (``sympy.sympify`` evaluates them), and operator names that are
looked up in ``torch`` by attribute. A model from a registry may use none of them, so the archive is checked here,
with the standard library alone, before torch opens it.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES_FILE = "kedro_hone.json"
"""The extra file in which we keep the names of a program's inputs and outputs."""

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
    max min abs int float round ceil trunc sqrt isnan""".split()  # noqa: SIM905 - a list of words
)
_EXPRESSION_NODES = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Subscript, ast.Tuple,
    ast.keyword, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_TREE_TYPES = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})


def read_names(path: Path) -> dict[str, Any] | None:
    """Return the specs that we kept in the archive, or None when other software wrote it."""
    with zipfile.ZipFile(path) as archive:
        name = next((name for name in archive.namelist() if name.endswith(f"/extra/{NAMES_FILE}")), None)
        return dict(json.loads(archive.read(name))) if name else None


def is_quantized(path: Path) -> bool:
    """Whether the program holds PT2E's quantized operators, which only torchao registers."""
    with zipfile.ZipFile(path) as archive:
        models = [archive.read(name) for name in archive.namelist() if _is_model(name)]
    return any(b"torch.ops.quantized_decomposed." in model for model in models)


def find_threat(path: Path) -> str | None:
    """Return why loading a file that ``torch.export.save`` wrote could run code from it, or None when it cannot."""
    try:
        with zipfile.ZipFile(path) as archive:
            return next(_find_threats(archive), None)
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        return f"it is not an archive of an exported program: {error}"


def _is_model(name: str) -> bool:
    return "/models/" in name and name.endswith(".json")


def _find_threats(archive: zipfile.ZipFile) -> Iterator[str]:
    names = archive.namelist()
    if not any(map(_is_model, names)):
        yield "it holds no exported program of a format that can be checked"
    for name in names:
        base = name.rpartition("/")[2]
        if "/data/aotinductor/" in name or base.endswith(".so"):
            yield f"it holds compiled code ({name})"
        if base.startswith(("custom_obj_", "opaque_obj_")) or re.search(r"/data/(constants|weights)/[^/]*\.pt$", name):
            yield f"it holds a pickled object ({name})"
        if name.endswith("_config.json") and '"use_pickle": true' in archive.read(name).decode():
            yield f"it holds pickled tensors ({name})"
    for name in filter(_is_model, names):
        yield from _find_threats_in_program(json.loads(archive.read(name)))


def _find_threats_in_program(program: dict[str, Any]) -> Iterator[str]:
    for guard in program.get("guards_code") or ():
        if not _is_plain_expression(guard):
            yield f"its guard {guard[:80]!r} is more than a comparison of sizes"
    for symbol in program.get("range_constraints", {}):
        if not re.fullmatch(r"\w+", symbol):
            yield f"its symbol {symbol[:80]!r} is not a name"
    for key, value in _walk(program):
        if key == "target" and isinstance(value, str) and not _TARGET.fullmatch(value):
            yield f"it calls {value[:80]!r}, which is no tensor operator"
        if key == "expr_str" and not _is_plain_expression(str(value)):
            yield f"its size {str(value)[:80]!r} is more than an expression"
        if key in ("in_spec", "out_spec") and isinstance(value, str) and _find_class(value) is not None:
            yield "its arguments or results are of a class that would have to be imported"


def _walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of nested JSON."""
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            yield from top.items()
            stack.extend(top.values())
        elif isinstance(top, list):
            stack.extend(top)


def _is_plain_expression(text: str) -> bool:
    """Whether a text is arithmetic on sizes: only known functions, and strings only as names.

    These are the names of symbols, and the keys of inputs as in ``L['x'].size()[0] == 3``.
    """
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
            case ast.Constant(str() | bytes()):
                return id(node) in names
        return isinstance(node, _EXPRESSION_NODES)

    return all(map(is_plain, nodes))


def find_result_class(path: Path) -> str | None:
    """Return the name of the author's class that a saved program's result is of; None where it is of none.

    ``torch.export.load`` refuses such a file without saying why. None, too, for a file that is no such archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            text = next(archive.read(name) for name in archive.namelist() if name.endswith("/models/model.json"))
        return _find_class(json.loads(text)["graph_module"]["module_call_graph"][0]["signature"]["out_spec"])
    except (zipfile.BadZipFile, ValueError, KeyError, IndexError, TypeError, StopIteration):
        return None


def _find_class(spec: str) -> str | None:
    """Return the first class in a tree of arguments or results that is no plain container, or what else is odd."""
    try:
        tree = json.loads(spec) if spec else None
    except ValueError:
        return spec
    types = (value for key, value in _walk(tree) if key == "type" and not isinstance(value, dict))
    return next((str(name) for name in types if name not in _TREE_TYPES), None)
