"""Texts in place of tokens: `--with-tokenizer` gives a model one input of text per row."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import numpy as np

from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Arrays
from hone_runtime.learner.lengths import MASK
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.server.checks import BATCH, explain_large
from kedro_hone.serving.server.configuration import TensorDescription, TextInput
from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.tensors import TEXT, Sent, check_shape, decode

TEXT_INPUT: Final = TensorDescription(name="text", datatype=TEXT, shape=(-1,))
"""The only input of a model with a tokenizer: a text for each row."""

MOST_CHARACTERS: Final = 1 << 18
"""The most characters of the texts of a request: one reader splits those of all requests in turn."""

_FIELDS: Final = {"input_ids": "ids", MASK: "attention_mask", "token_type_ids": "type_ids"}


class Tokenizer:
    """Turns texts into the inputs of a model.

    Args:
        text: Its file, and the largest length.
        artifact: The model; its inputs are token ids, and perhaps a mask and types.

    Raises:
        HoneError: ``serving-unsupported``: it has other inputs, or the file cannot be read.
    """

    def __init__(self, text: TextInput, artifact: Artifact) -> None:
        from tokenizers import Tokenizer as Fast  # noqa: PLC0415 - only few servers need it

        odd = [spec.name for spec in artifact.inputs if spec.name not in _FIELDS or len(spec.shape) != 2]
        if odd:
            raise _explain(f"Its input {odd[0]} is none of {', '.join(_FIELDS)}.")
        try:
            self._fast = Fast.from_file(str(text.tokenizer))
        except Exception as error:  # the package raises the base class
            raise _explain(f"{text.tokenizer.name} cannot be read: {error}") from error
        pad = self._fast.token_to_id(text.pad_token)
        if pad is None:
            raise _explain(f"Its tokenizer has no token {text.pad_token!r}, which fills shorter rows.")
        sides = [("left" if left else "right") for left in (text.truncates_left, text.left)]
        self._fast.enable_truncation(text.length, direction=sides[0])
        self._fast.enable_padding(
            direction=sides[1], pad_id=pad, pad_token=text.pad_token, length=_find_length(artifact.inputs)
        )
        self._specs, self._text = artifact.inputs, text

    def read(self, inputs: Sequence[Sent], *, most_rows: int) -> Arrays:
        """Return the inputs of the model for the texts of a request.

        Raises:
            RequestError: The request has another input, or too many rows.
        """
        if [one.name for one in inputs] != [TEXT_INPUT.name] or inputs[0].datatype != TEXT:
            raise RequestError(f"the model takes one input, {TEXT_INPUT.name}, of the type {TEXT}")
        (sent,) = inputs
        check_shape(sent.name, sent.shape)
        if len(sent.shape) != 1:
            raise RequestError(f"{sent.name} has the shape {list(sent.shape)}; the model takes one text per row")
        if sent.shape[0] > most_rows:
            raise explain_large(BATCH, sent.shape[0], most_rows)
        given = [str(one) for one in decode(sent, finite=True)]
        if (size := sum(map(len, given))) > MOST_CHARACTERS:
            raise RequestError(
                f"the texts have {size:,} characters, and the server takes {MOST_CHARACTERS:,} at once",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )
        texts = [self._text.prompt + one for one in given]
        rows = self._fast.encode_batch([one.lower() for one in texts] if self._text.lower else texts)
        return {spec.name: _stack(rows, spec) for spec in self._specs}


def _stack(rows: Sequence[Any], spec: TensorSpec) -> np.ndarray[Any, Any]:
    return np.array([getattr(row, _FIELDS[spec.name]) for row in rows], spec.dtype)


def _find_length(inputs: Sequence[TensorSpec]) -> int | None:
    """Return the only length that a model takes; None if it is dynamic."""
    return next((size for spec in inputs for size in spec.shape[1:] if isinstance(size, int)), None)


def _explain(why: str) -> HoneError:
    return HoneError(
        "serving-unsupported",
        "The winner cannot be served with its tokenizer.",
        why=why,
        hint="Serve it without --with-tokenizer, and send the tokens.",
    )
