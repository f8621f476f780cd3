"""Errors in a user's data, in a class that Kedro passes on unchanged."""

from __future__ import annotations

from kedro.io import DatasetError

from hone_runtime.errors import HoneError


class DataError(HoneError, DatasetError):
    """An error about data that the user can correct. Kedro passes it on: it wraps all errors but its own.

    The catalog wraps those too, to add the name of the entry; ``HoneError.find`` unwraps them.
    """
