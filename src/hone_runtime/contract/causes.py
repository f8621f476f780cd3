"""Extract the cause from a toolchain's message, often of many lines: one line without terminal escape sequences."""

from __future__ import annotations

import itertools
import re
from typing import Final

_STYLES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Escape sequences of ECMA-48, mainly colours, and window titles."""
_SOURCE_PLACE: Final = re.compile(r"\S\.\w+:\d+:$")
_SUMMARY: Final = "## Exception summary"
"""The text that PyTorch's ONNX exporter writes above the actual exception."""
_CLASS: Final = re.compile(r"^<class '(?:\w+\.)*(\w+)'>: ")
_ADVICE: Final = re.compile(
    r"\s*For (?:more|further|additional) information,? (?:run with|set|see|refer to)\b.*", re.IGNORECASE
)
_ANNOUNCED: Final = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : (?:Load model from \S+ failed:\s*)?"
    r"|FrontEnd API failed with \w+:\s*|Model wasn't fully converted\. Failed operations detailed log:\s*(?:-- )?"
)
"""The text that ONNX Runtime and OpenVINO write before the cause; a path in it is in a worker's folder."""
_ITEM: Final = re.compile(r"^[-*•] +")


def strip_styles(text: str) -> str:
    """Return a text without the escape sequences that style a terminal."""
    return _STYLES.sub("", text)


def find_cause(message: str) -> str:
    """Return the line with the cause.

    This is the first line. If that line ends with a colon, all lines are returned; if it only counts items, the first
    item of the list. Leading lines are skipped if they only announce an error or name a place in the toolchain's own
    source, such as ``Check 'false' failed at report.cpp:151:``. Advice on how to debug the toolchain is skipped too.
    """
    return _ANNOUNCED.sub("", _find_line(message))


def _find_line(message: str) -> str:
    lines = [line.strip() for line in strip_styles(message).splitlines() if line.strip()]
    if _SUMMARY in lines[:-1]:
        lines = lines[lines.index(_SUMMARY) + 1 :]
    relevant = list(itertools.dropwhile(_SOURCE_PLACE.search, lines)) or lines
    if not relevant:
        return ""
    if len(relevant) < len(lines) or relevant[0].endswith(":"):
        return " ".join(relevant)
    head = _CLASS.sub(r"\1: ", relevant[0])
    cut = _ADVICE.sub("", head) or head
    if cut != head and len(relevant) > 1 and _ITEM.match(relevant[1]):
        cut += " " + _ITEM.sub("", relevant[1])
    return cut


def cut_reason(reason: str) -> str:
    """Return a worker's reason in one line; if its first line ends with a colon, the cause in the rest is appended."""
    head, _, rest = strip_styles(reason).strip().partition("\n")
    return f"{head} {find_cause(rest)}".strip() if head.endswith(":") and rest.strip() else find_cause(reason)
