from __future__ import annotations

import math

import pytest

from hone_runtime.values.measurement import Checks, Interval, Quality


def make(drop=None, error=None):
    quality = None
    if drop is not None:
        interval = Interval(estimate=drop, low=drop, high=drop)
        quality = Quality(metric="accuracy", split="search", source=0.9, candidate=0.9 - drop, drop=interval, n=100)
    return Checks(quality=quality, largest_error=error)


def test_what_drops_more_loses_more_whatever_its_error():
    assert make(0.01, 1e-7).loss > make(0.0, 0.5).loss > make(0.0, 1e-7).loss


def test_a_drop_below_zero_and_the_order_of_rounding_errors_are_chance():
    assert make(-0.01, 3e-7).loss == make(0.0, 7e-7).loss


@pytest.mark.parametrize("error", [None, 0.0])
def test_what_is_not_known_or_none_is_no_loss(error):
    assert make(None, error).loss == (0.0, -math.inf)


def test_an_infinite_error_is_the_largest():
    assert make(0.0, math.inf).loss > make(0.0, 1e30).loss
