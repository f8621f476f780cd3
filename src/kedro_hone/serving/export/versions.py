"""The version folders of model servers."""

from __future__ import annotations

from typing import Final

from kedro_hone.serving.winner import ServedWinner

_MOST: Final = 2**31


def choose_version(winner: ServedWinner) -> int:
    """Return the number of a version's folder in a server: the registry's if that is a number, else 1."""
    number = int(winner.version) if winner.version.isascii() and winner.version.isdecimal() else 0
    return number if 0 < number < _MOST else 1
