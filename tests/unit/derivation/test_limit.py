"""The limit of the gate drop that a proposal derives."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.limit import choose_drop
from kedro_hone.derivation.request import Request


@pytest.mark.parametrize(
    ("asked", "provable", "limit"), [(None, None, 0.01), (None, 0.002, 0.01), (None, 0.07, 0.07), (0.05, 0.03, 0.05)]
)
def test_the_limit_is_what_was_asked_for_or_the_least_that_can_be_proved(asked, provable, limit):
    assert choose_drop(Request(source="m", max_drop=asked), provable) == limit


@pytest.mark.parametrize(("asked", "provable"), [(0.01, 0.02), (None, 0.3)])
def test_a_limit_that_cannot_be_proved_is_refused_with_the_one_that_can(asked, provable):
    with pytest.raises(HoneError, match="cannot prove") as raised:
        choose_drop(Request(source="m", max_drop=asked), provable)
    assert raised.value.slug == "gate-unprovable"
    assert f"--max-drop {provable:.2%}" in raised.value.hint
