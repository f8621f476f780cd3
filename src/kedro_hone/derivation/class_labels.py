"""Labels that are none of an estimator's classes, found before a run; its classes are noted when it is pulled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.derivation.columns import ColumnFacts
from kedro_hone.derivation.kinds import format_value
from kedro_hone.derivation.program import ChosenProgram
from kedro_hone.derivation.request import Request

_SHOWN: Final = 5


def check_classes(columns: Sequence[ColumnFacts], source: Artifact, request: Request, chosen: ChosenProgram) -> None:
    """Refuse a target with values that are none of an estimator's classes.

    Labels are not compared if the user named the classes or the output, or if they are of another type: they are then
    numbers of classes, or the program refuses them.

    Args:
        columns: The columns of the data.
        source: The pulled model.
        request: What the user named.
        chosen: The program, with the column of the labels.

    Raises:
        HoneError: ``labels-mismatch``, with the classes.
    """
    noted: Any = source.metadata.get("sklearn") or {}
    classes = noted.get("classes") or ()
    target = next((one for one in columns if one.name == chosen.target), None)
    named = request.classes or {"classes", "output"} & set(request.options)
    if named or not classes or target is None or target.values is None or chosen.name != "tabular-classification":
        return
    if target.kind == "number" and not any(isinstance(one, str) for one in classes):
        unknown = [value for value in target.values if float(value) not in set(map(float, classes))]
    elif target.kind == "text" and all(isinstance(one, str) for one in classes):
        unknown = [value for value in target.values if value not in set(classes)]
    else:
        return
    if not unknown:
        return
    hint = "Check that the data belong to this model, or name another column: --target NAME."
    if target.kind == "number" and sorted(target.values) == [one + 1 for one in sorted(classes)]:
        hint = f"Subtract 1 from each label: the model's classes begin at {format_value(min(classes))}."
    raise HoneError(
        "labels-mismatch",
        f"The labels in {target.name!r} do not match the model's classes.",
        why=f"{format_value(unknown[0])!r} is none of the {len(classes)} classes: {list_classes(classes)}.",
        hint=hint,
    )


def list_classes(classes: Sequence[Any]) -> str:
    """Return the first classes for a message, with a mark if there are more."""
    return ", ".join(repr(format_value(one)) for one in classes[:_SHOWN]) + (", …" if len(classes) > _SHOWN else "")
