"""Sounds as arrays of samples: lists of numbers, or the audio format of ``datasets`` (WAV only)."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np

from ..shared.arrays import Array
from ..shared.errors import BadOptionError, EmptyError, UnreadableError


def read_sounds(column: Array | None, names: list[str], *, rate: int, given: int | None) -> list[Array]:
    """Return the samples of each row as float32.

    ``rate`` is the model's rate, and ``given`` the rate of the data in the recipe.

    Raises:
        UnreadableError: There are no sounds, or a row has no samples.
        BadOptionError: They have another rate.
        EmptyError: There are no rows.
    """
    if column is None:
        raise UnreadableError(f"no column 'audio'; the data have {', '.join(names)}")
    if given not in {None, rate}:
        raise BadOptionError(f"the data have {given} samples a second, and the model takes {rate}: resample them")
    if not len(column):
        raise EmptyError("there is no sound")
    return [_read_sound(value, row, rate) for row, value in enumerate(column)]


def _read_sound(value: Any, row: int, rate: int) -> Array:
    own: int | None = None
    if isinstance(value, dict):
        own = value.get("sampling_rate")
        value = value["array"] if value.get("array") is not None else value.get("bytes")
    if isinstance(value, bytes):
        value, own = _open_wave(value, row)
    if own not in {None, rate}:
        raise UnreadableError(f"row {row} has {own} samples a second, and the model takes {rate}: resample the data")
    try:
        sound = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise UnreadableError(f"row {row} holds no samples of sound: {error}") from error
    if sound.ndim != 1 or not sound.size or not np.isfinite(sound).all():
        raise UnreadableError(f"row {row} holds no samples of one channel of sound")
    return sound


def _open_wave(content: bytes, row: int) -> tuple[Array, int]:
    try:
        with wave.open(io.BytesIO(content)) as file:
            width, channels, own = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise UnreadableError(f"row {row} is not a WAV file: {error}; convert others to WAV") from error
    if width != 2 or channels != 1:
        raise UnreadableError(f"row {row} has {channels} channels of {8 * width} bits; one of 16 bits is needed")
    return np.frombuffer(frames, dtype="<i2").astype(np.float32) / 32768, own
