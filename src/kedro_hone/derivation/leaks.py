"""Targets that the model gets as an input, so that its score proves nothing; and columns that may be the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.derivation.columns import ColumnFacts


def list_inputs(source: Artifact) -> frozenset[str]:
    """Return the names of a model's inputs, and of the columns that an estimator was fitted on."""
    noted: Any = source.metadata.get("sklearn") or {}
    return frozenset([*(spec.name for spec in source.inputs), *map(str, noted.get("feature_names_in") or ())])


def check_leak(
    target: ColumnFacts, source: Artifact, arrays: Mapping[str, str], columns: Sequence[ColumnFacts]
) -> None:
    """Refuse a target that the model gets as an input: its score would prove nothing.

    Args:
        target: The column of the target.
        source: The pulled model.
        arrays: Names of columns by the names of the model's inputs, where the user gave them.
        columns: The columns of the data.

    Raises:
        HoneError: ``target-unusable``, with a column that is no input.
    """
    inputs = list_inputs(source)
    if target.name not in {arrays.get(name, name) for name in inputs}:
        return
    others = [one.name for one in columns if one.name not in inputs]
    hint = f"Name the column of the labels: --target {(others or ['NAME'])[0]}."
    raise HoneError(
        "target-unusable",
        f"{target.name!r} cannot be the target.",
        why="It is also an input of the model, which then gets the answer: a score with it proves nothing.",
        hint=f"{hint} If the model was trained with it, train it again without.",
    )


def describe_unused(source: Artifact, arrays: Mapping[str, str], columns: Sequence[ColumnFacts]) -> tuple[str, ...]:
    """Return a line for the columns that no input of the model uses and that may be its labels.

    Args:
        source: The pulled model.
        arrays: Names of columns by the names of the model's inputs, where they differ.
        columns: The columns of the data.
    """
    used = {*list_inputs(source), *arrays.values(), *(f"input_{at}" for at in range(len(source.inputs)))}
    free = [one.name for one in columns if not one.shape and one.kind != "other" and one.name not in used][:3]
    verb = "is" if len(free) == 1 else "are"
    line = f"data      {', '.join(map(repr, free))} {verb} not used by the model"
    return (f"{line}; if it is the label: --target {free[0]}",) if free else ()
