from __future__ import annotations

import gzip
from http import HTTPStatus

import pytest

from kedro_hone.serving.server.bodies import decompress
from kedro_hone.serving.server.failures import RequestError


def test_a_compressed_request_has_the_limit_of_its_content() -> None:
    body = gzip.compress(b"\0" * 10_000, mtime=0)
    assert decompress(body, "gzip", limit=10_000) == b"\0" * 10_000
    with pytest.raises(RequestError, match="larger than 9999") as refused:
        decompress(body, "gzip", limit=9_999)
    assert refused.value.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize(
    ("body", "encoding"), [(b"x", "gzip"), (gzip.compress(b"x", mtime=0)[:-3], "gzip"), (b"x", "br")]
)
def test_what_cannot_be_decompressed_is_refused(body: bytes, encoding: str) -> None:
    with pytest.raises(RequestError):
        decompress(body, encoding, limit=100)
