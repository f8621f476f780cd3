from __future__ import annotations

import pytest

from kedro_hone.comparing.recipe_checks import check_provable
from kedro_hone.core.errors import HoneError
from kedro_hone.core.stats.levels import share_level
from kedro_hone.core.stats.proportions import smallest_provable_drop
from kedro_hone.recipe.schema import read_recipe

BOUND = smallest_provable_drop(300, 1 - share_level(0.05, finalists=2))
"""What 300 rows prove at best for each of two finalists."""


def check(drop):
    check_provable(300, read_recipe({"model": {"uri": "m"}, "gates": {"drop": drop}, "confirm": {"finalists": 2}}))


def test_a_limit_at_the_bound_itself_is_not_proved():
    with pytest.raises(HoneError) as caught:
        check(BOUND)
    assert caught.value.slug == "gate-unprovable"
    assert f"still reaches {BOUND:.4f} (confidence 0.95, shared by 2 finalists)" in caught.value.why


def test_a_limit_above_it_is_proved():
    check(BOUND * (1 + 1e-12))
