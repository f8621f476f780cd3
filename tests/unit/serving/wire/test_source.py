"""The source of a winner, if it cannot be served."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.wire import source


@pytest.mark.parametrize(
    ("slug", "raised"),
    [
        ("pickle-not-trusted", "serving-unsupported"),
        ("remote-code-not-trusted", "serving-unsupported"),
        ("native-not-trusted", "serving-unsupported"),
        ("model-corrupt", "model-corrupt"),
    ],
)
@pytest.mark.parametrize("vouched", [True, False])
def test_a_source_that_is_code_is_refused_with_what_can_be_done_here(monkeypatch, tmp_path, slug, raised, vouched):
    """The advice to set hone.trust was of no use, since the command has no recipe."""
    winner = SimpleNamespace(uri="models:/net/2", name="net", download=SimpleNamespace(vouched=vouched))

    def fetch(*_):
        raise HoneError(slug, "The model is a pickle (model.pth).", why="It is code.", hint="Set `hone.trust`.")

    monkeypatch.setattr(source, "fetch_source", fetch)
    with pytest.raises(HoneError) as refused:
        source.make_source(winner, None, tmp_path / "source")
    assert refused.value.slug == raised
    if raised == slug:
        return
    assert refused.value.why == "The model is a pickle (model.pth). It is code."
    assert "hone.trust" not in refused.value.hint
    assert ("--trust native" in refused.value.hint) is not vouched
