import pytest

from kedro_hone.report.plot import choose_steps, choose_ticks


@pytest.mark.parametrize(
    ("low", "high", "most"), [(0.1, 0.7, 9), (1.1, 1.5, 9), (0.1, 400, 5), (2.0, 2.1, 5), (1, 1e6, 5)]
)
def test_ticks_are_inside_and_few(low, high, most):
    ticks = choose_ticks(low, high, most=most)
    assert len(ticks) <= most
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) >= 2 or high / low < 1.2


@pytest.mark.parametrize(("low", "high"), [(0.9617, 0.982), (0.9, 1.0), (-3.0, 12.5), (1000.0, 1001.0), (0.0, 1e-6)])
def test_steps_are_inside_and_round(low, high):
    steps = choose_steps(low, high)
    assert 3 <= len(steps) <= 8
    assert low - 1e-9 <= steps[0] < steps[-1] <= high + 1e-9
