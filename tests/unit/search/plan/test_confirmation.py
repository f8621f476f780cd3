"""How long a confirmation still takes: from its launches so far, and the looks that remain."""

from __future__ import annotations

import pytest

from kedro_hone.core.stats.plan import LOOKS
from kedro_hone.search.plan.confirmation import Remaining, find_remaining


@pytest.mark.parametrize(
    ("launch", "count", "left", "expected"),
    [
        (12.0, 0, 600.0, (84.0, 240.0)),
        (12.0, 2, 576.0, (60.0, 216.0)),
        (12.0, 7, 516.0, (36.0, 156.0)),
        (12.0, 2, 100.0, (60.0, 100.0)),  # the time limit comes first
        (12.0, 20, 360.0, (0.0, 0.0)),
        (12.0, 3, -1.0, (0.0, 0.0)),
        (None, 0, 600.0, (0.0, 600.0)),
    ],
)
def test_what_remains_follows_from_the_launches_so_far_and_the_looks(launch, count, left, expected):
    found = find_remaining(launch, LOOKS, count=count, left=left)
    assert found == Remaining(least=expected[0], most=expected[1])
