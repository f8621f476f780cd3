"""Find in the JSON of an exported program what torch would run as code when it is loaded.

These are symbolic expressions (``sympy.sympify`` evaluates them), guards, operator names that are looked up in
``torch`` by attribute, and classes of arguments or results, which are imported.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

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


def find_threats(program: dict[str, Any]) -> Iterator[str]:
    """Yield why loading a program with this JSON could run code from it."""
    for guard in program.get("guards_code") or ():
        if not _is_plain_expression(guard):
            yield f"its guard {guard[:80]!r} is more than a comparison of sizes"
    for symbol in program.get("range_constraints", {}):
        if not re.fullmatch(r"\w+", symbol):
            yield f"its symbol {symbol[:80]!r} is not a name"
    for key, value in _walk(program):
        if key in {"target", "as_operator"} and isinstance(value, str) and not _TARGET.fullmatch(value):
            yield f"it calls {value[:80]!r}, which is no tensor operator"
        if key == "expr_str" and not _is_plain_expression(str(value)):
            yield f"its size {str(value)[:80]!r} is more than an expression"
        if key in ("in_spec", "out_spec") and isinstance(value, str) and find_class(value) is not None:
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


def find_class(spec: str) -> str | None:
    """Return the first class in a tree of arguments or results that is no plain container, or what else is odd."""
    try:
        tree = json.loads(spec) if spec else None
    except ValueError:
        return spec
    types = (value for key, value in _walk(tree) if key == "type" and not isinstance(value, dict))
    return next((str(name) for name in types if name not in _TREE_TYPES), None)
