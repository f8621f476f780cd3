"""Errors of a program about the user's data and options; the attribute ``slug`` identifies the explained error."""

from __future__ import annotations


class UnreadableError(ValueError):
    """The data do not have the format that the program expects."""

    slug = "data-unreadable"


class EmptyError(ValueError):
    """The data have no rows."""

    slug = "data-empty"


class LabelsMismatchError(ValueError):
    """The labels do not fit the model's outputs."""

    slug = "labels-mismatch"


class BadOptionError(ValueError):
    """An option of the program is invalid."""

    slug = "recipe-invalid"


class TokenizerMissingError(ValueError):
    """The tokenizer or the processor of the model is missing, or cannot be used."""

    slug = "tokenizer-missing"


class TaskMismatchError(ValueError):
    """The model is for another task than the program."""

    slug = "task-mismatch"
