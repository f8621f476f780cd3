"""The ``MLmodel`` of a folder, which may be untrusted: YAML of plain values, with a signature as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import yaml

from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.base import Json
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.source_format import MlModel

LARGEST_MLMODEL: Final = 1024 * 1024
"""The largest ``MLmodel`` that is parsed, in bytes."""
_DEEPEST_YAML: Final = 64
_SIDES: Final = ("inputs", "outputs", "params")
"""The parts of a signature, each of which MLflow writes as JSON."""
_SAFE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # pure Python takes half a minute for the largest


_BROKEN: Final = (ValueError, ArithmeticError, RecursionError, SyntaxError, MemoryError)
"""The exceptions for invalid numbers, types and nested text."""


class PlainLoader(_SAFE):  # type: ignore[misc]  # of PyYAML
    """YAML of texts, plain numbers, true, false and null: a few merge keys can expand to gigabytes, base 60 is slow."""

    yaml_implicit_resolvers: ClassVar[dict[str, object]] = {}
    yaml_constructors: ClassVar[dict[object, object]] = {
        f"tag:yaml.org,2002:{kind}": _SAFE.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
        for kind in ("null", "bool", "str", "seq", "map")
    } | {None: _SAFE.yaml_constructors[None]}

    def flatten_mapping(self, node: object) -> None:
        """Do not merge."""


for _kind, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?\d{1,18}", list("-+0123456789")),
    ("float", r"[-+]?\d{1,18}\.\d{0,18}(e[-+]?\d{1,3})?", list("-+0123456789")),
):
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"^(?:{_pattern})$", re.ASCII), _first)
for _name, _number in (("int", int), ("float", float)):
    PlainLoader.add_constructor(
        f"tag:yaml.org,2002:{_name}", lambda loader, node, read=_number: read(loader.construct_scalar(node))
    )


def read_mlmodel(path: Path) -> MlModel:
    """Return the entries of an ``MLmodel`` about the model next to it, without importing MLflow.

    Raises:
        HoneError: ``model-corrupt``: it cannot be read, or has no flavors.
    """
    if path.stat().st_size > LARGEST_MLMODEL:
        raise make_corrupt(path, f"it is larger than {LARGEST_MLMODEL} bytes")
    try:
        model = read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, KeyError, *_BROKEN) as error:  # KeyError: !!bool x
        raise make_corrupt(path, f"it is not YAML: {str(error).partition(chr(10))[0]}") from error
    flavors = model.get("flavors") if isinstance(model, dict) else None
    if not isinstance(flavors, dict) or not all(isinstance(name, str) for name in flavors):
        raise make_corrupt(path, "it names no flavors")
    try:
        inputs, outputs = read_signature(model.get("signature"))
        columns = _read_columns(model.get("signature"))
    except (AttributeError, KeyError, TypeError, *_BROKEN) as error:
        raise make_corrupt(path, f"the signature cannot be read: {error!r}") from error
    said = model.get("signature")
    sides = {name: said[name] for name in _SIDES if isinstance(said.get(name), str)} if isinstance(said, dict) else {}
    python = _read_python(flavors.get("python_function"))
    return MlModel(flavors=flavors, inputs=inputs, outputs=outputs, columns=columns, signature=sides, python=python)


def _read_python(entry: Json) -> str:
    """Return the version of Python in the entry of MLflow's flavor ``python_function``; empty if it has none."""
    said = entry.get("python_version") if isinstance(entry, dict) else None
    return said if isinstance(said, str) and re.fullmatch(r"\d{1,3}(\.\d{1,3}){1,2}\S{0,20}", said) else ""


def read_yaml(text: str) -> Any:
    """Return the value of YAML that is not nested too deeply: at some thousand levels libyaml ends the process."""
    depth = 0
    for event in yaml.parse(text, PlainLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_YAML:
            raise ValueError(f"it is deeper than {_DEEPEST_YAML} levels")
    return yaml.load(text, PlainLoader)  # noqa: S506 - a safe loader


def read_signature(signature: Json) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the inputs and outputs of an MLflow ``signature`` entry, or of None, without importing MLflow.

    The first axis, if it is dynamic, is ``batch``; other dynamic axes get unique names. Unnamed tensors are ``input_0``
    and ``output_0``: the file's own names take precedence if a worker can read them. A side that is missing or not made
    of tensors (columns of a table) is empty.
    """
    sides = signature if isinstance(signature, dict) else {}
    return _read_side(sides.get("inputs"), "input"), _read_side(sides.get("outputs"), "output")


def _read_columns(signature: Json) -> tuple[tuple[str, str], ...]:
    """Return each column's name and type if the input of a ``signature`` is a table with named columns."""
    text = signature.get("inputs") if isinstance(signature, dict) else None
    rows = json.loads(text) if isinstance(text, str) else (text or [])
    found = [(row.get("name"), _name_type(row)) for row in rows]
    if any(not isinstance(name, str) or not isinstance(kind, str) or kind == "tensor" for name, kind in found):
        return ()
    return tuple(found)


def _name_type(row: Mapping[str, Json]) -> Json:
    kind = row.get("type")
    return "double" if row.get("required") is False and kind in {"boolean", "integer", "long", "float"} else kind


def _read_side(text: Json, word: str) -> tuple[TensorSpec, ...]:
    rows = json.loads(text) if isinstance(text, str) else (text or [])
    length = 0
    if any(row.get("type") != "tensor" for row in rows):
        return ()
    specs = []
    for index, row in enumerate(rows):
        name, dtype = row.get("name") or f"{word}_{index}", row["tensor-spec"]["dtype"]
        shape = row["tensor-spec"]["shape"]
        if not (isinstance(name, str) and isinstance(dtype, str)):  # YAML aliases can expand to endless text
            raise TypeError("a name or a type is not text")
        length += len(dtype) + (len(name) + 1) * (len(shape) + 1)
        if length > LARGEST_MLMODEL:  # aliases repeat the same text or list
            raise ValueError("its names and shapes have no end")
        sizes = [int(size) for size in shape]
        dynamic = ["batch", *(f"{name}_{axis}" for axis in range(1, len(sizes)))]
        known = tuple(size if size >= 0 else axis for size, axis in zip(sizes, dynamic, strict=False))
        specs.append(TensorSpec(name=name, dtype=np.dtype(dtype).name, shape=known))
    return tuple(specs)
