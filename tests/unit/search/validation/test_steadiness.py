"""Rows for which the source is unsteady are compared again with its own answers, and told."""

from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.search.comparison.agreement import compare_arrays
from kedro_hone.search.stability.single_rows import Unsteady
from kedro_hone.search.validation import steadiness

WANT = np.random.default_rng(0).normal(size=(20, 3))
SHARES = {"exact": 0.0, "discrete": 0.01, "unscored": 0.1}
ANSWERS = {"y": {4: [WANT[4] + 1]}}


@pytest.fixture
def excuse(monkeypatch):
    """Return a function that excuses the rows of an output that differs in some, by what the source is unsteady in."""

    def call(unsteady, rows=(4,), batches=("one", "odd")):
        got = WANT.copy()
        got[[*rows]] += 1
        asked = []
        monkeypatch.setattr(steadiness, "find_unsteady", lambda *_, **__: unsteady)
        found = {where: [compare_arrays("y", WANT, got)] for where in batches}
        excused, limits = steadiness.excuse_rows(
            found,
            dict.fromkeys(batches, 1),
            shares=SHARES,
            compare=lambda where, answers: asked.append((where, answers)) or [compare_arrays("y", WANT, WANT)],
            context=None,
            reference=None,
        )
        return excused, limits, asked

    return call


def test_the_answers_of_unsteady_rows_are_compared_with_and_the_rows_told_once(excuse):
    excused, limits, asked = excuse(Unsteady(answers=ANSWERS, in_calls=(4,)))

    assert asked == [("one", ANSWERS), ("odd", ANSWERS)]
    assert [each[0].rows for each in excused.values()] == [0, 0]
    assert limits == ("the source itself returns something else in calls of 1 for these rows: 4",)


def test_rows_at_a_step_are_told(excuse):
    _, limits, _ = excuse(Unsteady(answers=ANSWERS, in_calls=(4,), among_copies=(4,)))

    assert limits[1:] == ("the source itself returns something else among copies for these rows: 4",)


def test_rows_that_differ_among_copies_only_are_not_said_to_differ_in_calls(excuse):
    excused, limits, asked = excuse(Unsteady(answers=ANSWERS, among_copies=(4,)))

    assert limits == ("the source itself returns something else among copies for these rows: 4",)
    assert len(asked) == len(excused) == 2


@pytest.mark.parametrize("rows", [(4,), ()])
def test_a_steady_source_excuses_nothing(excuse, rows):
    excused, limits, asked = excuse(Unsteady(), rows=rows)

    assert (limits, asked) == ((), [])
    assert {each[0].rows for each in excused.values()} == {len(rows)}
