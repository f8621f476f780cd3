"""Which source format a pulled folder is of. Reads names and YAML; runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import yaml

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import BUILT_IN, Offer, check_kind, describe_exception, guard, name_function
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import TensorSpec
from kedro_hone.core.values.base import Json
from kedro_hone.learner.interfaces import INTERFACES
from kedro_hone.learner.runtimes import explain_native
from kedro_hone.sources.catalogue import read_sources
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.source_format import MLMODEL, AuthorClass, Flavor, MlModel, Pulled, SourceFormat

logger = open_logger(__name__)

LARGEST_MLMODEL: Final = 1024 * 1024
"""The largest ``MLmodel`` that is parsed, in bytes."""
_DEEPEST_YAML: Final = 64
_SAFE: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Python's takes half a minute for the largest


_BROKEN: Final = (ValueError, ArithmeticError, RecursionError, SyntaxError, MemoryError)
"""What reads numbers, types and nested text raises for what it cannot read."""


class PlainLoader(_SAFE):  # type: ignore[misc]  # of PyYAML
    """YAML of texts, plain numbers, true, false and null: merge keys are gigabytes in a few rows, base 60 is slow."""

    yaml_implicit_resolvers: ClassVar[dict[str, object]] = {}
    yaml_constructors: ClassVar[dict[object, object]] = {
        f"tag:yaml.org,2002:{kind}": _SAFE.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
        for kind in ("null", "bool", "str", "seq", "map")
    } | {None: _SAFE.yaml_constructors[None]}

    def flatten_mapping(self, node: object) -> None:
        """Merge nothing."""


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


def read_flavor(
    folder: Path,
    *,
    trust: frozenset[str],
    author: AuthorClass | None = None,
    task: str | None = None,
    signature: str | None = None,
    due: str | None = None,
    uri: str = "",
) -> Flavor:
    """Return what a pulled folder (an MLflow model, or a model's file) holds: the source formats are asked in order.

    ``due`` is the digest that the registry has for a winner of ours; ``uri`` is what its user calls the model.

    Raises:
        HoneError: ``native-not-trusted``: it is native code, and ``trust`` has no ``native``.
        HoneError: ``pickle-not-trusted``, ``model-unsupported``, ``model-corrupt``, ``recipe-invalid`` when the recipe
            names a class and the model takes none, ``source-format-broken``, or ``model-external-data`` when a link
            leads out of the folder.
    """
    _refuse_links_out(folder)
    mlmodel = _read_mlmodel(folder / MLMODEL) if (folder / MLMODEL).is_file() else None
    pulled = Pulled(folder=folder, mlmodel=mlmodel, author=author, due=due, trust=trust, task=task, signature=signature)
    sources, broken = read_sources()
    for place, error in broken.items():
        logger.warning("the source format of %s cannot be imported: %s", place, describe_exception(error))
    for source, offer in sources.values():
        found = _detect(source, pulled, offer)
        if found is not None:
            _check_taken(source, found, pulled, trust=trust)
            return _complete(source, found, pulled)
    taken = [source.noun for source, _ in sources.values() if source.unsupported is None and not source.takes_class]
    raise _explain_unknown(pulled, taken, broken, called=uri or folder.name)


def _detect(source: SourceFormat, pulled: Pulled, offer: Offer) -> Flavor | None:
    with guard(
        "source-format-broken",
        f"The source format {source.name} cannot be used.",
        culprit=f"It comes from {offer.origin}, and {name_function(source.detect)}",
        hint="Mend its function detect, or uninstall its package.",
        ours=offer.origin == BUILT_IN,
    ):
        found = source.detect(pulled)
        if found is not None and check_kind(found, Flavor).format not in (source.seals or {found.format}):
            raise ValueError(f"it found {found.format!r}, which is not in its seals")
    return found


def _check_taken(source: SourceFormat, found: Flavor, pulled: Pulled, *, trust: frozenset[str]) -> None:
    what = f"The model is {source.noun}{f' ({found.files[0][0]})' if found.files else ''}."
    if pulled.author is not None and not source.takes_class:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a class, and the model takes none.",
            why=f"hone.model.module is {pulled.author.place!r}, and the model is {source.noun}.",
            hint="Name a model that holds the state of that class, an exported program (.pt2) or what "
            "safetensors.torch.save_model(model, 'model.safetensors') writes; or leave hone.model.module out.",
        )
    if source.trust is not None and source.trust not in trust:
        raise HoneError("pickle-not-trusted", what, why=source.untrusted, hint=source.hint)
    if source.trust is None and "native" not in trust and read_catalogue().is_native(found.format):
        raise explain_native(found.format, hint="or add trust: [native] to the recipe")
    if source.unsupported is not None:
        raise HoneError("model-unsupported", what, why=source.unsupported, hint=source.hint)
    if pulled.task is not None and not source.takes_task:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a task, and the model takes none.",
            why=f"hone.model.task is {pulled.task!r}, and the model is {source.noun}.",
            hint="Leave hone.model.task out: it says what a model of Transformers is for.",
        )
    if pulled.signature is not None and not source.takes_signature:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a signature, and the model has none.",
            why=f"hone.model.signature is {pulled.signature!r}, and the model is {source.noun}.",
            hint="Leave hone.model.signature out: it names a function of a SavedModel of TensorFlow.",
        )


def _complete(source: SourceFormat, found: Flavor, pulled: Pulled) -> Flavor:
    """Fill in what the format leaves to its description and to the signature."""
    interface = found.interface or source.interface
    if interface not in INTERFACES:
        raise make_corrupt(pulled.folder, f"its interface {interface!r} is none of {', '.join(INTERFACES)}")
    said = pulled.mlmodel or MlModel(flavors={})
    specs = {side: getattr(found, side) or getattr(said, side) for side in ("inputs", "outputs")}
    return found.model_copy(update={"source": source.name, "interface": interface, **specs})


def _explain_unknown(pulled: Pulled, taken: Sequence[str], broken: Collection[str], *, called: str) -> HoneError:
    supported = f"Supported are {', '.join(taken[:-1])} and {taken[-1]}."
    if broken:
        supported += f" Could not be imported: {', '.join(broken)}."
    if pulled.mlmodel is not None:
        what = "The model is of no flavor that can be optimized."
        why = f"Its MLmodel has: {', '.join(sorted(pulled.mlmodel.flavors)) or 'none'}. {supported}"
        hint = "Log the model with mlflow.onnx.log_model or mlflow.pytorch.log_model."
    else:
        what = f"{called} holds no model that can be optimized."
        names = sorted(path.name for path in pulled.folder.iterdir())
        why = f"It holds: {', '.join(names[:8]) or 'nothing'}. {supported}"
        hint = "Name a folder with model.onnx, model.pt2 or an MLmodel, or one .onnx or .pt2 file."
        if pulled.author is not None:
            hint = (
                "The state of a class is one file, model.pt2 or model.safetensors: save it whole, by torch.export.save "
            )
            hint += "or safetensors.torch.save_model."
        elif any(name.endswith(".safetensors") for name in names):
            hint = "If it is the state of a PyTorch class, name that in hone.model.module; else save the whole model."
    return HoneError("model-unsupported", what, why=why, hint=hint)


def _read_mlmodel(path: Path) -> MlModel:
    if path.stat().st_size > LARGEST_MLMODEL:
        raise make_corrupt(path, f"it is larger than {LARGEST_MLMODEL} bytes")
    try:
        model = _read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, KeyError, *_BROKEN) as error:  # KeyError: !!bool x
        raise make_corrupt(path, f"it is not YAML: {str(error).partition(chr(10))[0]}") from error
    flavors = model.get("flavors") if isinstance(model, dict) else None
    if not isinstance(flavors, dict) or not all(isinstance(name, str) for name in flavors):
        raise make_corrupt(path, "it names no flavors")
    try:
        inputs, outputs = _read_signature(model.get("signature"))
        columns = _read_columns(model.get("signature"))
    except (AttributeError, KeyError, TypeError, *_BROKEN) as error:
        raise make_corrupt(path, f"the signature cannot be read: {error!r}") from error
    return MlModel(flavors=flavors, inputs=inputs, outputs=outputs, columns=columns)


def _read_yaml(text: str) -> Any:
    """Return what YAML holds that is not too deep: at some thousand levels libyaml's loader ends the process."""
    depth = 0
    for event in yaml.parse(text, PlainLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_YAML:
            raise ValueError(f"it is deeper than {_DEEPEST_YAML} levels")
    return yaml.load(text, PlainLoader)  # noqa: S506 - a safe loader


def _refuse_links_out(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_symlink() and not _stays_in(folder, path):
            raise HoneError(
                "model-external-data",
                f"{path.relative_to(folder)} is a link that leads out of the model's folder.",
                why="All files of a model must be in its folder.",
                hint="Replace the link by the file.",
            )


def _stays_in(folder: Path, link: Path) -> bool:
    try:
        return link.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # it leads to itself
        return False


def _read_signature(signature: Json) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the inputs and outputs of an MLflow ``signature`` entry, or of None, without importing MLflow.

    The first axis, when it is dynamic, is ``batch``; other dynamic axes get a name of their own. Unnamed tensors are
    ``input_0`` and ``output_0``: the file's own names, where a worker can read them, come before these. A side that is
    missing or not made of tensors (columns of a table) is empty.
    """
    said = signature if isinstance(signature, dict) else {}
    return _read_side(said.get("inputs"), "input"), _read_side(said.get("outputs"), "output")


def _read_columns(signature: Json) -> tuple[tuple[str, str], ...]:
    """Return each column's name and type where the input of a ``signature`` is a table whose columns have names."""
    text = signature.get("inputs") if isinstance(signature, dict) else None
    rows = json.loads(text) if isinstance(text, str) else (text or [])
    found = [(row.get("name"), row.get("type")) for row in rows]
    if any(not isinstance(name, str) or not isinstance(kind, str) or kind == "tensor" for name, kind in found):
        return ()
    return tuple(found)


def _read_side(text: Json, word: str) -> tuple[TensorSpec, ...]:
    rows = json.loads(text) if isinstance(text, str) else (text or [])
    said = 0
    if any(row.get("type") != "tensor" for row in rows):
        return ()
    specs = []
    for index, row in enumerate(rows):
        name, dtype = row.get("name") or f"{word}_{index}", row["tensor-spec"]["dtype"]
        shape = row["tensor-spec"]["shape"]
        if not (isinstance(name, str) and isinstance(dtype, str)):  # aliases of YAML can be endless as text
            raise TypeError("a name or a type is no text")
        said += len(dtype) + (len(name) + 1) * (len(shape) + 1)
        if said > LARGEST_MLMODEL:  # aliases say the same text or list often
            raise ValueError("its names and shapes have no end")
        sizes = [int(size) for size in shape]
        dynamic = ["batch", *(f"{name}_{axis}" for axis in range(1, len(sizes)))]
        known = tuple(size if size >= 0 else axis for size, axis in zip(sizes, dynamic, strict=False))
        specs.append(TensorSpec(name=name, dtype=np.dtype(dtype).name, shape=known))
    return tuple(specs)
