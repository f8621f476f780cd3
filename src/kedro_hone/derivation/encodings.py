"""Encodings of text files: UTF-8 with and without a mark, UTF-16 with a mark, and Windows-1252."""

from __future__ import annotations

import codecs
from pathlib import Path

from kedro_hone.derivation.rows import find_unreadable

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_text(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, and a note if it is not UTF-8; ends of lines are unchanged.

    Raises:
        HoneError: ``data-unreadable`` if it is no text, such as an Excel file under the name of a ``.csv`` file.
    """
    content = path.read_bytes()
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        why = "It is a file of Excel or another archive, not text."
        raise find_unreadable(path, why, "Export it as CSV in UTF-8, and name that file: --data FILE.")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            why = f"It begins as {encoding} text, and byte {error.start} is not: {error.reason}."
            raise find_unreadable(path, why, "Write it as UTF-8.") from error
        text, said = _decode_old(content), f"byte 0x{content[error.start]:02X} at position {error.start:,} is not UTF-8"
        return _check_text(path, text), (f"{path.name} was read as Windows-1252 (Latin-1): {said}",)
    notes = (f"{path.name} was read as UTF-16",) if encoding == "utf-16" else ()
    return _check_text(path, text), notes


def _decode_old(content: bytes) -> str:
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:  # it leaves five bytes undefined
        return content.decode("latin-1")


def _check_text(path: Path, text: str) -> str:
    if "\0" in text:
        why = f"Character {text.index(chr(0)):,} is a zero byte, which no text has."
        raise find_unreadable(path, why, "Export it as text in UTF-8, or name the format by the file's suffix.")
    return text
