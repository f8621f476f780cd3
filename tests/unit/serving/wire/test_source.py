"""The source of a winner, if it cannot be served."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.wire import source

WINNER = SimpleNamespace(uri="models:/net/2", name="net", download=None)


@pytest.mark.parametrize(
    ("slug", "raised"),
    [
        ("pickle-not-trusted", "serving-unsupported"),
        ("remote-code-not-trusted", "serving-unsupported"),
        ("model-corrupt", "model-corrupt"),
    ],
)
def test_a_source_that_is_code_is_refused_with_what_can_be_done_here(monkeypatch, tmp_path, slug, raised):
    """The advice to set hone.trust was of no use, since the command has no recipe."""

    def fetch(*_):
        raise HoneError(slug, "The model is a pickle.", why="It is code.", hint="Set `hone.trust: [pickle]`.")

    monkeypatch.setattr(source, "fetch_source", fetch)
    with pytest.raises(HoneError) as refused:
        source.make_source(WINNER, None, tmp_path / "source")
    assert refused.value.slug == raised
    assert ("hone.trust" in refused.value.hint) is (raised == slug)
