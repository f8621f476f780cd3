"""The program and its options, derived from the source model and the columns of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.text import suggest
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.derivation.columns import ColumnFacts
from kedro_hone.derivation.leaks import check_leak, list_inputs
from kedro_hone.derivation.request import Request
from kedro_hone.programs.shared.classes import LABELS
from kedro_hone.programs.shared.text import PAIRS, TEXTS
from kedro_hone.programs.token_classification import TAGS, WORDS

FIDELITY: Final = "fidelity"
_PROGRAMS: Final[Mapping[str, str]] = {
    "text-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "fill-mask": "masked-language-modeling",
    "text-generation": "causal-language-modeling",
    "text2text-generation": "sequence-to-sequence",
    "feature-extraction": "sentence-embedding",
    "image-classification": "image-classification",
    "automatic-speech-recognition": "speech-recognition",
}
"""The built-in program for each task of Transformers."""
_TEXTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "text-classification": ("text", TEXTS),
    "masked-language-modeling": ("text", TEXTS),
    "causal-language-modeling": ("text", TEXTS),
    "sequence-to-sequence": ("text", TEXTS),
    "sentence-embedding": ("text", TEXTS),
    "token-classification": ("words", WORDS),
}
"""Of each program for text: its column, and the usual names of that."""
_UNLABELLED: Final = frozenset({FIDELITY, "masked-language-modeling", "causal-language-modeling", "sentence-embedding"})
_OWN_TARGETS: Final = {"question-answering": ("answers", "answer"), "token-classification": TAGS}
"""The usual names of labels of the programs that have others than `LABELS`."""
_LENGTHS: Final = frozenset({*_TEXTS, "question-answering", "speech-recognition"})
"""The programs with the option ``length``."""
_IMAGE_AXES: Final = 4
_KINDS: Final = {"classifier": "tabular-classification", "regressor": "tabular-regression"}


@dataclass(frozen=True, kw_only=True)
class ChosenProgram:
    """A program with its options.

    Attributes:
        name: The program's name.
        options: Its options in the recipe.
        target: The column of the labels; None for a program without labels.
        content: The columns that the model gets; None for all but the target.
        why: Why this program, as words after "task NAME, ".
    """

    name: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)
    target: str | None = None
    content: tuple[str, ...] | None = None

    @property
    def takes_length(self) -> bool:
        """Whether it has the option ``length``."""
        return self.name in _LENGTHS


def choose_program(request: Request, source: Artifact, columns: Sequence[ColumnFacts]) -> ChosenProgram:
    """Choose the program for a source model and its data.

    Args:
        request: What the user named takes precedence: the task, the target, the inputs, the classes.
        source: The pulled model.
        columns: The columns of the data; empty without data.

    Raises:
        HoneError: ``task-unclear``: several programs fit, or the data lack the labels that the task needs;
            ``column-unknown`` or ``data-unreadable``: the target or an input is not in the data.
    """
    target = _find_target(request, source, columns)
    name, why = _choose_name(request, source, target) if columns else (FIDELITY, "since there are no data")
    if name in _UNLABELLED and request.target is None:
        target = None
    labelled = name not in {*_UNLABELLED, *_OWN_TARGETS} or (request.task is None and _is_table(source, columns))
    if target is None and columns and labelled:
        raise _explain_unlabelled(name, columns, source)
    arrays: dict[str, str] = dict(request.inputs)
    if target is not None:
        check_leak(target, source, arrays, columns)
        arrays["target"] = target.name  # each program has an order of its own for usual names
    arrays |= _match_inputs(name, source, [one for one in columns if one is not target], arrays)
    options: dict[str, Any] = {"arrays": arrays} if arrays else {}
    if request.classes:
        options["classes"] = list(request.classes)
    elif target is not None and target.kind == "text":
        options |= _name_classes(name, source, target)
    content = _list_content(name, source, columns, arrays)
    if request.group is not None and content is None and _is_table(source, columns):
        others = {request.group, target.name if target else None}
        options["features"] = [one.name for one in columns if one.name not in others]
    if name == "image-classification":
        options |= _order_channels(source.inputs, columns, arrays)
    named = request.options.get("arrays")
    more = {"arrays": {**arrays, **named}} if isinstance(named, dict) else {}  # the target's column stays named
    return ChosenProgram(
        name=name,
        why=why,
        options={**options, **request.options, **more},
        target=target.name if target else None,
        content=content,
    )


def _list_content(
    name: str, source: Artifact, columns: Sequence[ColumnFacts], arrays: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the columns that the model gets; None if it may be any of them."""
    if name in _TEXTS:
        role, usual = _TEXTS[name]
        text = arrays.get(role) or next(one for one in usual if _find(columns, one))
        return (text, *(one.name for one in columns if one.name in PAIRS))
    noted: Any = source.metadata.get("sklearn") or {}
    names = [arrays.get(spec.name, spec.name) for spec in source.inputs]
    if len(names) == 1 and not _find(columns, names[0]):
        names = list(map(str, noted.get("feature_names_in") or ()))
    return tuple(names) if names and all(_find(columns, one) for one in names) else None


def _find(columns: Sequence[ColumnFacts], name: str) -> ColumnFacts | None:
    return next((one for one in columns if one.name == name), None)


def _find_target(request: Request, source: Artifact, columns: Sequence[ColumnFacts]) -> ColumnFacts | None:
    """Return the column that the user named, or the one with a usual name that is no input of the model."""
    if request.target is None:
        inputs = list_inputs(source)
        found = (_find(columns, name) for name in LABELS if name not in inputs)
        return next(filter(None, found), None)
    if (named := _find(columns, request.target)) is not None:
        return named
    names = [one.name for one in columns]
    why = f"The data have: {', '.join(names)}." if names else "There are no data."
    hint = f"{suggest(request.target, names)}Name the column of the labels by --target."
    raise HoneError("column-unknown", f"The data have no column {request.target!r}.", why=why, hint=hint)


def _choose_name(request: Request, source: Artifact, target: ColumnFacts | None) -> tuple[str, str]:
    if request.task is not None:
        return _PROGRAMS.get(request.task, request.task), "as --task names it"
    noted: Any = source.metadata
    if "transformers" in noted:
        task = str(noted["transformers"]["task"])
        if task in _PROGRAMS:
            return _PROGRAMS[task], "by the architecture in the model's config"
        return FIDELITY, f"since no built-in task is {task}"
    if target is None:
        return FIDELITY, "since the data have no labels: outputs are compared with the source's"
    if kind := _KINDS.get(str((noted.get("sklearn") or {}).get("kind"))):
        return kind, "by the kind of the estimator"
    return _choose_by_outputs(source, target)


def _choose_by_outputs(source: Artifact, target: ColumnFacts) -> tuple[str, str]:
    """Choose by the first output's shape and type, and the target's values."""
    output, image = source.outputs[0], any(len(spec.shape) == _IMAGE_AXES for spec in source.inputs)
    classifier = "image-classification" if image else "tabular-classification"
    size = output.shape[1] if len(output.shape) == 2 else None
    if output.dtype == "str" or (isinstance(size, int) and size > 1 and (target.whole or target.kind == "text")):
        shown = "text" if output.dtype == "str" else f"{size} numbers"
        return classifier, f"since the output {output.name!r} has {shown} for each row, and {target.name!r} classes"
    single = len(output.shape) == 1 or size == 1
    if single and target.kind == "number" and len(target.values or range(3)) > 2:
        return "tabular-regression", f"since the output {output.name!r} is one number for each row"
    if target.shape or len(output.shape) > 2:
        return FIDELITY, f"since no built-in task has outputs of the shape {_show(output)}"
    fitting = ["tabular-regression", classifier, FIDELITY]
    raise HoneError(
        "task-unclear",
        "The task cannot be derived from the model and the data.",
        why=f"The output {output.name!r} has the shape {_show(output)}, and the target {target.name!r} is "
        f"{target.kind}{f' with {len(target.values)} different values' if target.values else ''}.",
        hint=f"Name it: --task {' or --task '.join(fitting)}.",
    )


def _show(spec: TensorSpec) -> str:
    return f"({', '.join(map(str, spec.shape))})"


def _is_table(source: Artifact, columns: Sequence[ColumnFacts]) -> bool:
    """Return whether the columns of a table are one input of the model, next to each other."""
    alone = len(source.inputs) == 1 and len(source.inputs[0].shape) == 2 and source.inputs[0].shape[1] != 1
    named = alone and _find(columns, source.inputs[0].name) is not None
    return alone and not named and len(columns) > 1 and all(not one.shape for one in columns)


def _explain_unlabelled(name: str, columns: Sequence[ColumnFacts], source: Artifact) -> HoneError:
    inputs = list_inputs(source)
    likely = sorted(columns, key=lambda one: (one.name in {*inputs, *TEXTS}, len(one.values or range(10**6))))
    names = [one.name for one in likely]
    hint = f"Name the column of the labels: --target {names[0]}."
    if "transformers" not in source.metadata and not _is_table(source, columns):
        hint += f" Or compare the outputs alone: --task {FIDELITY}."
    task = f"The task {name}" if name != FIDELITY else "A task for tables"
    why = f"{task} compares predictions with labels, and no column has a usual name ({', '.join(LABELS)})."
    raise HoneError("task-unclear", "The data have no labels.", why=f"{why} There are: {', '.join(names)}.", hint=hint)


def _match_inputs(
    name: str, source: Artifact, columns: Sequence[ColumnFacts], arrays: Mapping[str, str]
) -> dict[str, str]:
    """Return the option ``arrays`` for inputs whose names are not those of the data.

    Raises:
        HoneError: ``data-unreadable``: an input has no column, and several may be meant.
    """
    if name in _TEXTS:
        role, usual = _TEXTS[name]
        if role in arrays or any(_find(columns, one) for one in usual):
            return {}
        fitting = [one.name for one in columns if one.kind in {"text", "other"} and one.name not in PAIRS]
        return {role: _choose_only(role, fitting, columns)}
    if name not in {FIDELITY, "tabular-classification", "tabular-regression", "image-classification"}:
        return {}
    named = [spec.name for spec in source.inputs]
    if len(named) > 1 or not columns or named[0] in arrays or _find(columns, named[0]):
        return {}
    spec = source.inputs[0]
    fitting = [one.name for one in columns if len(one.shape) == len(spec.shape) - 1]
    if name.startswith("tabular") and all(not one.shape for one in columns):
        return {}  # the columns of a table, next to each other
    return {} if "input_0" in fitting else {spec.name: _choose_only(spec.name, fitting, columns)}


def _choose_only(name: str, fitting: Sequence[str], columns: Sequence[ColumnFacts]) -> str:
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(one.name for one in columns) or "none"
    why = f"The data have: {names}; {'none' if not fitting else ' and '.join(fitting)} could be it."
    hint = f"Name it: --input {name}={(fitting or ['COLUMN'])[0]}."
    raise HoneError("data-unreadable", f"The data have nothing for the model's input {name!r}.", why=why, hint=hint)


def _name_classes(name: str, source: Artifact, target: ColumnFacts) -> dict[str, Any]:
    """Return the option ``classes`` for labels that are text, where the model has their names.

    Raises:
        HoneError: ``labels-mismatch``: the model has only numbers of classes.
    """
    output = source.outputs[0]
    if not name.endswith("classification") or "transformers" in source.metadata or output.dtype == "str":
        return {}
    values = ", ".join(map(str, (target.values or ("cat", "dog"))[:5]))
    raise HoneError(
        "labels-mismatch",
        f"The labels in {target.name!r} are text, and the model has only numbers of classes.",
        why=f"Its output {output.name!r} has the shape {_show(output)}; the order of the classes is unknown.",
        hint=f"Name the classes in the order of its outputs: --classes {values.replace(', ', ',')}.",
    )


def _order_channels(
    inputs: Sequence[TensorSpec], columns: Sequence[ColumnFacts], arrays: Mapping[str, str]
) -> dict[str, str]:
    """Return the option ``channels`` if only that makes the pictures fit the model's input."""
    if len(inputs) != 1 or len(inputs[0].shape) != _IMAGE_AXES:
        return {}
    wanted = inputs[0].shape[1:]
    pictures = _find(columns, arrays.get(inputs[0].name, inputs[0].name))
    pictures = pictures or next((one for one in columns if len(one.shape) == _IMAGE_AXES - 1), None)
    if pictures is None or len(pictures.shape) != _IMAGE_AXES - 1 or _fits(pictures.shape, wanted):
        return {}
    height, width, channels = pictures.shape
    if _fits((channels, height, width), wanted):
        return {"channels": "last"}
    channels, height, width = pictures.shape
    return {"channels": "first"} if _fits((height, width, channels), wanted) else {}


def _fits(sizes: Sequence[int], wanted: Sequence[int | str]) -> bool:
    return all(isinstance(dim, str) or size == dim for size, dim in zip(sizes, wanted, strict=True))
