"""Allowed texts in a program's JSON: torch writes names, strings and comments into Python or C++ that is run."""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
METADATA = frozenset({"nn_module_stack", "source_fn_stack", "torch_fn"})
"""Metadata of operators that is passed to torch, which needs nothing else."""
_TREE_TYPES = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
_TAKEN = frozenset("self torch device inf nan NoneType fx_pytree pytree getattr slice".split())  # noqa: SIM905 - words
_KEYWORDS = 1  # depth of the dictionary with the keyword arguments' names in the tree of the arguments

_TARGET = re.compile(
    r"torch\.ops\.(?:aten|prims|quantized|quantized_decomposed|onednn|torchao|torchvision)"
    r"\.(?!(?:from_file|save)\b)(?:_?[A-Za-z0-9]\w*|__i?(?:and|or|xor|lshift|rshift)__)\.[A-Za-z]\w*"
    r"|torch\.ops\.higher_order\.(?:associative_scan|auto_functionalized(?:_v2)?|cond|flex_attention|invoke_subgraph"
    r"|map_impl|out_dtype|scan|strict_mode|while_loop|wrap_with_autocast|wrap_with_set_grad_enabled)"
    r"|_operator\.(?:getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|torch\._?sym_[a-z]+|math\.[a-z]\w*",
    re.ASCII,
)
_CALLS = frozenset(
    """Symbol Integer Rational Float Add Mul Pow Max Min Mod PythonMod FloorDiv CeilDiv CleanDiv floor ceiling Abs
    Piecewise Eq Ne Lt Le Gt Ge And Or Not TruncToInt TruncToFloat CeilToInt FloorToInt RoundToInt RoundDecimal ToFloat
    IntTrueDiv FloatTrueDiv PowByNatural FloatPow Where Identity ModularIndexing
    StrictGreaterThan GreaterThan StrictLessThan LessThan Equality Unequality""".split()  # noqa: SIM905 - words
)
_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Tuple, ast.Load, ast.keyword,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_LARGEST_POWER = 64


def is_name(text: str) -> bool:
    """Whether it is a name, and not used by fx's generated source: a tensor named ``self`` has other attributes."""
    return NAME.fullmatch(text) is not None and text not in _TAKEN and not keyword.iskeyword(text)


def is_graph(text: str) -> bool:
    """Whether it is a name of a graph, which torch numbers: no attribute of a module has such a name."""
    return is_name(text) and text[-1].isdigit() and not text.startswith("_")


def is_symbol(text: str) -> bool:
    """Whether it is a size of fewer than seven digits: torch would count up to a larger one for minutes."""
    return is_expression(text) and re.search(r"[\d_]{7}", text) is None


def is_attribute(text: str) -> bool:
    """Whether it is the name of a module's tensor: fx writes ``self.…`` or ``getattr(self, "…")`` for each part.

    Python normalizes identifiers in the first form, so a part may be another attribute than the one torch compared.
    """
    normal = unicodedata.normalize("NFKC", text) == text and text.isprintable()
    normal = normal and re.sub(r"[^a-z]", "", text.lower()) != "self"  # since fx derives a name from it
    return normal and not re.search(r"[\"'\\#]|(^|\.)__\w+__(\.|$)", text)


def is_text(text: str) -> bool:
    """Whether it cannot end a string between double quotes, or a comment."""
    return text.isprintable() and not re.search(r'["\\]', text)


def is_expression(text: str) -> bool:
    """Whether a text is arithmetic on sizes: known functions, and strings only as names of symbols.

    Sympy drops line ends before parsing, so that a string may have another meaning for it than for Python.
    """
    try:
        nodes = [*ast.walk(ast.parse(text, mode="eval"))] if is_text(text) and text.isascii() else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    symbols: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
            symbols.update(map(id, node.args))

    def is_plain(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(name)):
                return name in _CALLS
            case ast.Name(name):
                return "__" not in name
            case ast.Constant(str(said)):
                return id(node) in symbols and is_name(said)
            case ast.Constant(int() | float()):
                return True
        return isinstance(node, _NODES)

    return bool(nodes) and all(map(is_plain, nodes)) and _find_degree(nodes[0]) <= _LARGEST_POWER


def _find_degree(node: ast.AST) -> int:
    """Return the highest power in an expression: sympy computes it, however long that takes."""
    match node:
        case (
            ast.BinOp(left=base, op=ast.Pow() | ast.LShift(), right=exponent)
            | ast.Call(func=ast.Name("Pow" | "PowByNatural" | "FloatPow"), args=[base, exponent])
        ):
            power = exponent.args[0] if isinstance(exponent, ast.Call) and len(exponent.args) == 1 else exponent
            power = power.operand if isinstance(power, ast.UnaryOp) else power
            if isinstance(power, ast.Constant) and isinstance(power.value, int | float):
                return _find_degree(base) * max(1, math.ceil(abs(power.value)))
            return _LARGEST_POWER + 1
        case ast.keyword(value=value):
            return value.value if isinstance(value, ast.Constant) and type(value.value) is int else 1
    return max(map(_find_degree, ast.iter_child_nodes(node)), default=1)


def find_class(spec: str, *, inputs: bool = False) -> str | None:
    """Return the first class in a tree of arguments or results that is not a plain container, or another anomaly."""
    try:
        protocol, tree = json.loads(spec)
        return _find_class(tree, 0 if inputs else _KEYWORDS + 1) if protocol == 1 else "of another format"
    except (ValueError, TypeError, KeyError):
        return spec or "empty"


def _find_class(tree: Any, depth: int) -> str | None:
    """Keys of dictionaries are plain, and at one depth argument names: torch writes these into a signature."""
    kind, context = tree["type"], tree["context"]
    if kind not in _TREE_TYPES:
        return str(kind)
    keys = None if context is None else json.loads(context)
    if not isinstance(keys, list | None):  # an object may be a member of an enumeration, whose module torch imports
        return f"{context[:80]} is not a list of keys"
    allowed = is_name if depth == _KEYWORDS else is_attribute
    for key in keys or ():
        if not isinstance(key, int | float | None) and not (isinstance(key, str) and allowed(key)):
            return f"{str(key)[:80]!r} is not a name"
    return next(filter(None, (_find_class(each, depth + 1) for each in tree["children_spec"])), None)


def find_misused(place: str, text: str) -> Iterator[str]:
    """Yield why a text is not allowed at this place: a class of the schema with its field, ``[]`` for a key."""
    problem, allowed = _PLACES.get(place, (f"is a text, and none may be its {place}", lambda _: False))
    if not allowed(text):
        yield f"{text[:80]!r} {problem}"


def _places() -> Iterator[tuple[str, tuple[str, Callable[[str], object]]]]:
    def allow(places: str, problem: str, allowed: Callable[[str], object]) -> Iterator[Any]:
        return ((place, (problem, allowed)) for place in places.split())

    yield from allow(
        """TensorArgument.name TokenArgument.name SymIntArgument.as_name SymFloatArgument.as_name
        SymBoolArgument.as_name Graph.tensor_values[] Graph.sym_int_values[] Graph.sym_bool_values[]
        Graph.sym_float_values[] ModuleCallSignature.forward_arg_names InputToConstantInputSpec.name
        GradientToUserInputSpec.user_input_name UserInputMutationSpec.user_input_name NamedTupleDef.field_names
        ExportedProgram.opset_version[]""",
        "is not a name",
        is_name,
    )
    yield from allow("GraphArgument.name", "is not a name of a graph", is_graph)
    yield from allow("NamedArgument.name", "is not a name", lambda text: not text or NAME.fullmatch(text))
    yield from allow("Node.name", "is not a name", lambda text: not text or is_name(text))
    yield from allow(
        """InputToParameterSpec.parameter_name InputToBufferSpec.buffer_name ParameterMutationSpec.parameter_name
        InputToTensorConstantSpec.tensor_constant_name BufferMutationSpec.buffer_name
        GradientToParameterSpec.parameter_name ModuleCallEntry.fqn PayloadConfig.config[]""",
        "is not a name of a tensor or a module",
        is_attribute,
    )
    yield from allow(
        """Argument.as_string Argument.as_strings Argument.as_string_to_argument[] ConstantValue.as_string
        Device.type GraphModule.treespec_namedtuple_fields[] ExportedProgram.torch_version""",
        "could end a string or a comment in source",
        is_text,
    )
    yield from allow("Node.metadata Node.metadata[]", "could end a string or a comment in source", str.isprintable)
    yield from allow("Node.target Argument.as_operator", "is called, which is not a tensor operator", _TARGET.fullmatch)
    yield from allow("ExportedProgram.range_constraints[]", "is a size, and more than an expression", is_symbol)
    yield from allow("SymExpr.expr_str", "is a size, and more than an expression", is_expression)
    yield from allow("ExportedProgram.verifiers", "is not a dialect", re.compile("[A-Z]+").fullmatch)
    yield from allow("PayloadMeta.path_name", "is a pickled object", re.compile(r"(weight|tensor)_\d+").fullmatch)
    classes = "is of a class that would have to be imported, or has a key that is not a name"
    yield from allow("ModuleCallSignature.in_spec", classes, lambda text: find_class(text, inputs=True) is None)
    yield from allow("ModuleCallSignature.out_spec", classes, lambda text: find_class(text) is None)


_PLACES = dict(_places())
