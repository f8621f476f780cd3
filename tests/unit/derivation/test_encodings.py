"""Text is read in the encodings that people have; what is no text is refused."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.encodings import read_text


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", ()),
        ("utf-8-sig", ()),
        ("utf-16", ("a.csv was read as UTF-16",)),
        ("cp1252", ("a.csv was read as Windows-1252 (Latin-1): byte 0xE9 at position 1 is not UTF-8",)),
    ],
)
def test_text_is_read_in_any_usual_encoding(tmp_path, encoding, said):
    path = tmp_path / "a.csv"
    path.write_bytes("hé,€\r\n".encode(encoding))
    assert read_text(path) == ("hé,€\r\n", said)


def test_a_byte_that_windows_leaves_undefined_is_read_as_latin_1(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xe9\x81")
    assert read_text(path)[0] == "é\x81"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"PK\x03\x04rest", "Excel"), (b"a\0b", "zero byte"), (b"\xef\xbb\xbfa\xe9", "byte 1")],
)
def test_what_is_no_text_is_refused(tmp_path, content, said):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(HoneError) as caught:
        read_text(path)
    assert caught.value.slug == "data-unreadable"
    assert said in caught.value.why
