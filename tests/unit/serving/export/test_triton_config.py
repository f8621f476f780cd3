from __future__ import annotations

import pytest

from kedro_hone.serving.export.triton_config import Word, format_message


def test_fields_messages_and_lists() -> None:
    written = format_message(
        [
            ("name", "m"),
            ("n", 3),
            ("on", True),
            ("kind", Word("KIND_CPU")),
            ("at", (-1, 4)),
            ("none", ()),
            ("in", [("a", 1)]),
        ]
    )
    assert written.splitlines() == [
        'name: "m"',
        "n: 3",
        "on: true",
        "kind: KIND_CPU",
        "at: [-1, 4]",
        "none: []",
        "in {",
        "  a: 1",
        "}",
    ]


def test_a_text_cannot_end_its_quotes() -> None:
    assert format_message([("name", 'a"b\\c\nd: 1 ä')]) == 'name: "a\\"b\\\\c\\012d: 1 \\303\\244"\n'


def test_other_values_are_a_mistake() -> None:
    with pytest.raises(TypeError, match="float"):
        format_message([("x", 0.5)])
