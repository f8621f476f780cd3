"""Errors about data, options and metrics that cannot be used, each with a remedy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

SLUGS = {
    "data-unreadable": "A split cannot be read as the program expects.",
    "data-empty": "A split has no rows.",
    "labels-mismatch": "The labels do not match the model's outputs.",
    "recipe-invalid": "An option of the program is not known.",
    "tokenizer-missing": "The model has no tokenizer or processor that can be used.",
    "task-mismatch": "The model is for another task than the program.",
}
"""The errors that a program may raise, by the attribute ``slug`` of its exception."""

HINTS = {
    "data-unreadable": "Compare the names and shapes in the file with the model's inputs; hone.program.options.arrays "
    "maps one to the other. See Data in the documentation.",
    "data-empty": "Put rows into the file, then dvc add, git commit and dvc push it.",
    "labels-mismatch": "Check that the data belong to this model, and hone.program.options.output and "
    "hone.program.options.classes.",
    "metric-unknown": "Leave hone.program.metric empty for the program's own metric, or name one of these.",
    "program-failed": "See Write a program in the documentation for what the functions of a program must return.",
    "recipe-invalid": "Correct hone.program.options.",
    "source-not-rowwise": "Wrap the model so that the rows are on the first axis of each input.",
    "tokenizer-missing": "Save the tokenizer or processor in the model's folder, or name its folder: "
    "hone.program.options.tokenizer.",
    "task-mismatch": "Name the program of the model's task, or the output that counts: hone.program.options.output.",
}


class ReportedError(ValueError):
    """A split cannot be used, or a metric cannot be computed: the error's slug, what happened, and (its text) why.

    What to do is the slug's ``HINTS``, if there is no better ``hint``.
    """

    def __init__(self, slug: str, what: str, why: str, *, hint: str = "") -> None:
        super().__init__(why)
        self.slug, self.what, self.hint = slug, what, hint


def explained(function: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Make a function return errors in data and options as ``error``; the program's own errors are not caught."""

    @functools.wraps(function)
    def call(argument: Any) -> dict[str, Any]:
        try:
            return function(argument)
        except Exception as error:
            slug = getattr(error, "slug", None)
            if slug not in HINTS:
                raise
            what = getattr(error, "what", None) or SLUGS.get(slug, "The program failed.")
            hint = (isinstance(error, ReportedError) and error.hint) or HINTS[slug]
            return {"error": {"slug": slug, "what": what, "why": str(error), "hint": hint}}

    return call
