"""What a program raises about the user's data and options; the attribute ``slug`` makes it an error for people."""

from __future__ import annotations


class UnreadableError(ValueError):
    """The data are not what the program expects."""

    slug = "data-unreadable"


class LabelsMismatchError(ValueError):
    """The labels do not fit the model's outputs."""

    slug = "labels-mismatch"


class BadOptionError(ValueError):
    """An option of the program cannot be followed."""

    slug = "recipe-invalid"
