"""What is wrong with a user's data, as Kedro passes it on."""

from __future__ import annotations

from kedro.io import DatasetError

from hone_runtime.errors import HoneError


class DataError(HoneError, DatasetError):
    """An error about data that the user can correct, which Kedro passes on as it is: it wraps all but its own.

    The catalog wraps those too, to add the name of the entry; ``HoneError.find`` unwraps them.
    """
