"""No sentence of the documentation is longer than what one reads without going back."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import count_words, list_sentences

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ROOT / "docs" / "adaptors"
"""Whole pages that the code writes."""
MOST_WORDS = 40


def find_long(page: str, most: int = MOST_WORDS) -> list[str]:
    return [f"{count_words(each)} words: {each}" for each in list_sentences(page) if count_words(each) > most]


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent != GENERATED], ids=lambda p: str(p.relative_to(ROOT)))
def test_no_sentence_is_too_long(page):
    assert find_long(page.read_text()) == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ("Version 2.6 is 1.5 times as fast. It is new.", ["Version 2.6 is 1.5 times as fast.", "It is new."]),
        ("Formats, e.g. ONNX, are read. Others are not.", ["Formats, e.g. ONNX, are read.", "Others are not."]),
        ("By R. Tango (1998). It is exact.", ["By R. Tango (1998).", "It is exact."]),
        ("He said “no.” Then he left.", ["He said “no.", "Then he left."]),
        ("Run `a. B` first. `kedro run` is next.", ["Run Code first.", "Code is next."]),
        ("Two\nlines are one.", ["Two lines are one."]),
        ("A list:\n\n- One\n- Two\n  goes on\n1. Three", ["A list:", "One", "Two goes on", "Three"]),
        ("# A heading\nThe text", ["A heading", "The text"]),
        ("| a | b |\n|---|--:|\n| One two. Three | four |", ["a", "b", "One two.", "Three", "four"]),
        ("See [the *page*](a/b.md#c) and ![no](x.png) <https://x.org/a>.", ["See the *page* and Code."]),
        ("```python\nOne. Two.\n```\nText", ["Text"]),
        ("- An item\n\n  ```\n  One. Two.\n  ```\n", ["An item"]),
        ("Left <!-- begin x: written by a -->\nOne. Two.\n<!-- end x --> right", ["Left", "right"]),
        ('!!! note "A title"\n    The text.', ['note "A title"', "The text."]),
        ("> A quote. And\n> its end.", ["A quote.", "And its end."]),
    ],
)
def test_sentences_are_found(text, sentences):
    assert [*list_sentences(text)] == sentences


def test_words_are_counted():
    assert count_words("A dash \u2013 and Code count, 3 \u00d7 4 too.") == 7
    assert find_long("One two three. Four five.", most=2) == ["3 words: One two three."]


def test_a_planted_sentence_is_found():
    long = " ".join(["word"] * (MOST_WORDS + 1))
    for page in (f"{long}.", f"- {long}", f"| a | {long} |", f"## {long}", f"Short. {long} [link](x.md)"):
        assert len(find_long(page)) == 1
    assert find_long(f"```\n{long}\n```\n\n<!-- begin a: written by b -->\n\n{long}\n\n<!-- end a -->") == []
