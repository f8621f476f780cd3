"""How a text may be written in a file: as it is, or with characters escaped as JSON, Python, URLs and XML do it."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import codepoint2name
from typing import Final

_WIDEST: Final = 40
"""No spelling of one character is longer, in bytes."""
_BEFORE_AND_AFTER: Final = 16
"""How many bytes around a text its expression may look at."""
_NAMES: Final = {**codepoint2name, ord("'"): "apos"}
_SHORT: Final = {"\n": "n", "\t": "t", "\r": "r", "\b": "b", "\f": "f"}


@dataclass(frozen=True, kw_only=True)
class Spellings:
    """All spellings of a text.

    Attributes:
        anchor: The longest part that no format escapes; it is looked for first, ten times as fast as an expression is.
        reach: How many bytes before and after the anchor belong to the text, or decide whether it is one.
        pattern: The expression for all spellings.
    """

    anchor: bytes
    reach: int
    pattern: re.Pattern[bytes]

    def occurs(self, content: bytes | mmap.mmap) -> bool:
        """Return whether one of the spellings occurs in the bytes of a file."""
        if not self.anchor:
            return self.pattern.search(content) is not None
        place = content.find(self.anchor)
        while place >= 0:
            if self.pattern.search(content, max(0, place - self.reach), place + len(self.anchor) + self.reach):
                return True
            place = content.find(self.anchor, place + 1)
        return False


def spell(value: str, start: bytes = b"", end: bytes = b"") -> Spellings:
    """Return all spellings of a text; ``start`` and ``end`` are expressions for what may be around it."""
    anchor = max(re.findall(r"[A-Za-z0-9]+", value), key=len, default="")
    pattern = re.compile(start + b"".join(_spell_character(one) for one in value) + end)
    return Spellings(anchor=anchor.encode(), reach=len(value) * _WIDEST + _BEFORE_AND_AFTER, pattern=pattern)


def _spell_character(one: str) -> bytes:
    """Return an expression for one character; letters and digits of ASCII are never escaped."""
    if one.isascii() and one.isalnum():
        return one.encode()
    return b"(?:" + b"|".join(_list_spellings(one)) + b")"


def _list_spellings(one: str) -> Iterator[bytes]:
    raw, number = one.encode(errors="surrogateescape"), ord(one)
    yield (rb"\\{0,4}" if one.isascii() else b"") + re.escape(raw)  # also \/ and \" and \\
    yield b"".join(rb"%%(?:25)?(?i:%02x)" % byte for byte in raw)
    yield b"".join(rb"\\{1,4}x(?i:%02x)" % byte for byte in raw)
    wide = one.encode("utf-16-be", errors="surrogatepass")
    yield b"".join(rb"\\{1,4}u(?i:%s)" % wide[at : at + 2].hex().encode() for at in range(0, len(wide), 2))
    yield rb"\\{1,4}U(?i:%08x)" % number
    yield rb"&(?:amp;)?#(?:0{0,4}%d|[xX]0{0,4}(?i:%x));" % (number, number)
    if number < 256:
        yield rb"\\{1,4}x(?i:%02x)" % number
    if name := _NAMES.get(number):
        yield rb"&(?:amp;)?%s;" % name.encode()
    if one in _SHORT:
        yield rb"\\{1,4}" + _SHORT[one].encode()
    if one == " ":
        yield rb"\+"
