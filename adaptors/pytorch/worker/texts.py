"""Texts of a program's JSON, and what torch writes into Python or C++: names, strings, comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
ORIGINS = ("stack_trace", "from_node", "custom")
"""Metadata of operators that nothing needs."""

_ATTRIBUTES = frozenset({"parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name"})
_NO_ATTRIBUTE = re.compile(r"[\"'\\#]|(^|\.)__\w+__(\.|$)")  # fx writes getattr(self, "…") for each part
_TEXTS = _ATTRIBUTES | frozenset(
    """as_name as_operator as_string as_strings class_fqn dialect expr_str field_names forward_arg_names fqn guards_code
    in_spec name out_spec path_name target torch_version type user_input_name verifiers""".split()  # noqa: SIM905 - words
)
"""Under which keys the schema of torch.export has texts."""
_ENDLESS = re.compile(r"-?(Infinity|inf)|NaN|nan")
"""Numbers that JSON does not have, which torch writes as texts."""


def find_misplaced(program: Any) -> Iterator[str]:
    """Yield texts in the place of numbers or flags: torch compares no types, and what is a text it writes as it is."""
    for key, value in walk(program, leave="metadata"):
        if key not in _TEXTS and _holds_text(value):
            yield f"its {key[:80]!r} is a text"
        # Inputs that are texts become guards, between quotes; those of operators may be messages that have some.
        inputs = value if key == "inputs" and isinstance(value, list) else [value] if key == "value" else ()
        for said in (each.get("as_string") for each in inputs if isinstance(each, dict)):
            if isinstance(said, str) and "'" in said:
                yield f"its input {said[:80]!r} could end a string in source"


def _holds_text(value: Any) -> bool:
    if isinstance(value, str):
        return _ENDLESS.fullmatch(value) is None
    return isinstance(value, list) and any(map(_holds_text, value))


def find_pasted(key: str, value: Any) -> Iterator[str]:
    """Yield what would be more than a name or a text in source that torch writes."""
    names: list[Any] = []
    if key in {"name", "as_name"} and isinstance(value, str):
        names = [value]
    elif key == "forward_arg_names" or (key.endswith("_values") and isinstance(value, dict)):
        names = [*(value or ())] if isinstance(value, list | dict | None) else [value]
    elif key == "in_spec" and isinstance(value, str):
        names = [each for keys in list_keys(value) for each in keys if isinstance(each, str)]
    yield from (f"{str(name)[:80]!r} is not a name" for name in names if name and not NAME.fullmatch(str(name)))
    if key in _ATTRIBUTES and not is_attribute(value):
        yield f"{str(value)[:80]!r} is not a name of a tensor"
    texts: list[Any] = []
    if key in {"as_string", "as_strings"} and isinstance(value, str | list):
        texts = [value] if isinstance(value, str) else value
    elif key == "metadata" and isinstance(value, dict):
        texts = [text for name, text in value.items() if name not in ORIGINS]
    for text in texts:
        if isinstance(text, str) and (not text.isprintable() or (key != "metadata" and re.search(r'["\\]', text))):
            yield f"its text {text[:80]!r} could end a string or a comment in source"


def is_attribute(name: Any) -> bool:
    """Whether it is the name of a tensor of a module."""
    return isinstance(name, str) and name.isprintable() and not _NO_ATTRIBUTE.search(name)


def walk(value: Any, *, leave: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key and value of nested JSON, but not what is below the key to ``leave``."""
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            kept = [(key, each) for key, each in top.items() if not (leave and key == leave)]
            yield from kept
            stack.extend(each for _, each in kept)
        elif isinstance(top, list):
            stack.extend(top)


def list_keys(spec: str) -> Iterator[list[Any]]:
    """Yield the keys of each dictionary in a tree of arguments or results: JSON in JSON, read as torch does."""
    for key, value in walk(json.loads(spec) if spec else None):
        if key == "context" and value is not None:
            found = json.loads(value)
            yield found if isinstance(found, list) else [] if found is None else [found]
