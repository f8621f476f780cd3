"""Converts token numbers back to text without the tokenizer, by a table of the bytes of each token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from .arrays import Array, Arrays

BYTES, ENDS = "table_bytes", "table_ends"
"""The targets with the table: the concatenated bytes of all tokens, and the end of each."""

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def write_table(tokenizer: Any) -> Arrays:
    """Return the bytes of each token of a tokenizer of transformers, as targets; special tokens have no bytes."""
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    special |= set(tokenizer.all_special_ids)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.dumps(json.loads(backend.to_str()).get("decoder")) if backend is not None else ""
    delimiter = getattr(tokenizer, "word_delimiter_token", None)
    parts = [
        b" " if token == delimiter else b"" if number in special else _find_bytes(token or "", decoder)
        for number, token in enumerate(tokens)
    ]
    return {
        BYTES: np.frombuffer(b"".join(parts), dtype=np.uint8),
        ENDS: np.cumsum([len(part) for part in parts], dtype=np.int64),
    }


def _find_bytes(token: str, decoder: str) -> bytes:
    """Return the bytes of a token, for byte-level BPE, WordPiece or SentencePiece."""
    if '"ByteLevel"' in decoder:
        return (
            bytes(_LETTERS[letter] for letter in token)
            if all(letter in _LETTERS for letter in token)
            else token.encode()
        )
    if '"WordPiece"' in decoder:
        return (token[2:] if token.startswith("##") else f" {token}").encode()
    if byte := _BYTE.fullmatch(token):
        return bytes.fromhex(byte[1])
    return token.replace("\u2581", " ").encode()


def _list_letters() -> dict[str, int]:
    """Return the byte for each letter that represents one in byte-level BPE, as defined by GPT-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + at): byte for at, byte in enumerate(others)}


_LETTERS = _list_letters()


def read_text(numbers: Iterable[int], targets: Arrays) -> str:
    """Return the text of some tokens; invalid numbers, such as -1, are ignored."""
    ends: Array = targets[ENDS]
    whole = targets[BYTES]
    known = [int(number) for number in numbers if 0 <= number < len(ends)]
    parts = (whole[(ends[number - 1] if number else 0) : ends[number]].tobytes() for number in known)
    return b"".join(parts).decode(errors="replace").strip()
