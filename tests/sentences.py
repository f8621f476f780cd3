"""The sentences of a page in Markdown, without its code, its links' targets and what is generated."""

from __future__ import annotations

import re
from collections.abc import Iterator

CODE = "Code"
"""What stands for a piece of code in a sentence, which it may begin; it does not count as a word."""

_GENERATED = re.compile(r"<!-- begin ([\w-]+): written by .*?<!-- end \1 -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<mark>`{3,}|~{3,}).*?^(?P=indent)(?P=mark)`*~*[ \t]*$", re.DOTALL | re.MULTILINE
)
_INLINE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\](?:\([^)]*\)|\[[^\]]*\])")
_URL = re.compile(r"<?https?://[^\s>)]+>?")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_HEADING = re.compile(r"^#{1,6}\s")
_RULE = re.compile(r"^[\s|:-]+$")
_ADMONITION = re.compile(r"^\s*(?:!!!|\?\?\?\+?)\s")
_ATTRIBUTES = re.compile(r"\{[:#.][^}]*\}")
_END = re.compile(r"""(?<=[.!?\u2026])["'\u201d\u2019)\]*_]*\s+(?=["'\u201c\u2018(\[*_]*[A-Z0-9])""")
_ABBREVIATION = re.compile(r"(?:\b(?:[A-Z]|e\.g|i\.e|cf|vs|al|approx|ca|fig|eq|Dr|Mr|Ms|St)\.)$")
_WORD = re.compile(r"\w")


def list_sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page in their order; headings, items of lists and cells of tables end one."""
    text = _COMMENT.sub("", _GENERATED.sub("\n\n", page))
    text = _FENCE.sub("\n\n", text)
    for block in _list_blocks(_INLINE.sub(CODE, text)):
        yield from _split(_read(block))


def count_words(sentence: str) -> int:
    """Return how many words a sentence has; a piece of code, a dash or a sign by itself is none."""
    return sum(bool(_WORD.search(word.replace(CODE, ""))) for word in sentence.split())


def _list_blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, items, headings and cells of a page without code."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip().lstrip("> ")
        table, alone = stripped.startswith("|"), bool(_HEADING.match(stripped) or _ADMONITION.match(line))
        if (table or alone or not stripped or _ITEM.match(line)) and lines:
            yield " ".join(lines)
            lines = []
        if table:
            yield from (cell for cell in stripped.replace(r"\|", "/").strip("|").split("|") if not _RULE.match(cell))
        elif alone:
            yield stripped.lstrip("#!?+ ")
        elif stripped:
            lines.append(_ITEM.sub("", line).strip().lstrip("> "))


def _read(block: str) -> str:
    """Return a block as it is read: the text of links, and no targets, images or marks."""
    text = _IMAGE.sub("", block)
    while (shown := _LINK.sub(r"\1", text)) != text:
        text = shown
    return " ".join(_ATTRIBUTES.sub("", _URL.sub(CODE, text)).split())


def _split(text: str) -> Iterator[str]:
    """Yield the sentences of a text; a full stop ends none after an abbreviation or an initial."""
    begin = 0
    for end in _END.finditer(text):
        if not _ABBREVIATION.search(text[begin : end.start()]):
            yield text[begin : end.start()].strip()
            begin = end.end()
    if rest := text[begin:].strip():
        yield rest
