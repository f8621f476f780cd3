from __future__ import annotations

import pytest

from kedro_hone.core.errors import SLUGS, HoneError


@pytest.mark.parametrize("slug", SLUGS)
def test_an_error_is_read_back_from_its_text(slug):
    error = HoneError(slug, "It failed.", why="Line one.\nLine two.", hint="Do this.")
    found = HoneError.read(f"Failed while loading gate:\n{error}\n(in a process)")
    assert (found.slug, found.why, found.hint) == (slug, error.why, error.hint)
    assert found.what.endswith(error.what)


@pytest.mark.parametrize("text", ["", "It failed.", "a\n  why:  b\n  next: c\n  more: docs/errors/nothing.md"])
def test_a_text_without_an_error_holds_none(text):
    assert HoneError.read(text) is None
