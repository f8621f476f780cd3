"""What tells the steps of a pull request apart: a workflow with two models has two comments and two check runs."""

from __future__ import annotations

from typing import Final

from kedro_hone.core.text import clean_text
from kedro_hone.github.context import Context
from kedro_hone.github.inputs import Inputs

_ROOM: Final = 100  # characters of a check run's name that a page still shows


def make_marker(context: Context) -> str:
    """Return the hidden line that a step's comment is found again by."""
    return f"<!-- kedro-hone:report {context.step} -->"


def name_check(inputs: Inputs, context: Context) -> str:
    """Return the name of a step's check run, which a branch may require: such as ``kedro-hone (models:/digits, gpu)``.

    It has the step's name, or else the inputs that were given, and the values of the job's leg of the matrix. Two steps
    have the same one only if they were given the same name.
    """
    given = ["" if inputs.project == "." else inputs.project, inputs.model, inputs.recipe]
    given += [inputs.params, inputs.data_remote]
    parts = [" ".join(part.split()) for part in ([inputs.name] if inputs.name else given) + [context.leg]]
    label = clean_text(", ".join(part for part in parts if part))
    if len(label) > _ROOM:
        label = f"{label[:_ROOM]}… {context.step}"
    return f"kedro-hone ({label})" if label else "kedro-hone"
