"""The text format of Triton's ``config.pbtxt``, a message ``inference.ModelConfig``.

A writer of its own, since the versions of protobuf that Triton's client and MLflow need exclude each other.
Source: https://github.com/triton-inference-server/common, ``protobuf/model_config.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Message = Sequence[tuple[str, object]]
"""The fields of a message by their names, in order: a repeated field once for each value, or as a tuple of numbers."""


class Word(str):
    """A value without quotes: the name of an enum's value."""

    __slots__ = ()


def format_message(message: Message) -> str:
    """Return a message in the text format, a field in each line.

    Values are numbers, booleans, texts, ``Word``, tuples of numbers, or lists of pairs, which are messages.
    """
    return "".join(f"{line}\n" for line in _format_fields(message))


def _format_fields(message: Message) -> Iterator[str]:
    for name, value in message:
        if isinstance(value, list):
            yield f"{name} {{"
            yield from (f"  {line}" for line in _format_fields(value))
            yield "}"
        else:
            yield f"{name}: {_format_value(value)}"


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Word | int):
        return str(value)
    if isinstance(value, str):
        return f'"{"".join(_escape(byte) for byte in value.encode())}"'
    raise TypeError(f"a field of a message cannot be {type(value).__name__}")


def _escape(byte: int) -> str:
    """Return a byte of a text in UTF-8 as it is in quotes."""
    character = chr(byte)
    if character in {'"', "\\"}:
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\{byte:03o}"
