"""The built-in programs, as Markdown."""

from __future__ import annotations

import inspect

from generated.models import make_table
from kedro_hone.programs import list_programs, load_program


def describe_programs() -> str:
    """Return the table of the built-in programs: their names, the first lines of their docstrings, their metrics."""
    rows = []
    for name in list_programs():
        program = load_program(name)
        summary = str(inspect.getdoc(program)).splitlines()[0].removesuffix(".")
        metric = "depends on the outputs" if hasattr(program, "describe_metric") else f"`{program.METRIC}`"
        rows.append((f"`{name}`", summary, metric))
    return make_table(rows, "program", "data and predictions", "metric")
