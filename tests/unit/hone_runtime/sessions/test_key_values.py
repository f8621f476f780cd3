"""The one check of a cache of keys and values: what counts as another logit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hone_runtime.sessions.key_values import IDS, MASK, find_fault, make_rows

FEEDS = make_rows(vocabulary=7, limit=0)
WANTED = np.random.default_rng(0).normal(size=(*FEEDS[IDS].shape, 7)).astype(np.float32)


def start(logits):
    """Return what starts sequences whose steps return these logits, whatever the order of the rows."""

    def start():
        taken, rows = [0], [np.arange(len(logits))]

        def advance(feeds, order):
            first, taken[0] = taken[0], feeds[MASK].shape[1]
            rows[0] = rows[0] if order is None else rows[0][order]
            return {"logits": logits[rows[0], first : taken[0]]}

        return SimpleNamespace(advance=advance)

    return start


def check(found, wanted=WANTED, *, rounds=False):
    return find_fault(start(found), FEEDS, wanted, whose="the model's", rounds=rounds)


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_equal_logits_of_words_that_are_not_allowed_are_equal(value, rounds):
    wanted = WANTED.copy()
    wanted[..., 2] = value
    assert check(wanted, wanted, rounds=rounds) is None
    assert "differ from the model's" in check(wanted + wanted[..., :1], wanted, rounds=rounds)


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_a_logit_that_is_finite_on_one_side_only_is_a_fault(value, rounds):
    strange = WANTED.copy()
    strange[..., 2] = value
    assert check(WANTED, WANTED, rounds=rounds) is None
    assert check(strange, WANTED, rounds=rounds)
    assert check(WANTED, strange, rounds=rounds)
