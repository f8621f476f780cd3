"""Errors of datasets: a ``DatasetError`` for Kedro and a ``HoneError`` for people in one."""

from __future__ import annotations

from kedro.io import DatasetError

from kedro_hone.core.errors import HoneError


class DataError(HoneError, DatasetError):
    """An error about data that the user can correct.

    Kedro wraps what a dataset's ``load`` raises, unless it is a ``DatasetError``, as this is. The catalog wraps those
    as well, to add the name of the entry; ``find_error`` unwraps them.
    """


def find_error(error: BaseException) -> HoneError | None:
    """Return the error for people inside what a run, a catalog or a dataset raised, or None.

    It is the ``HoneError`` itself or among its causes; read back from the text where the causes were lost on the way
    from another process (as with ``ParallelRunner``).
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, HoneError):
        cause = cause.__cause__
    return cause or HoneError.read(str(error))
