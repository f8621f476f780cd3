# ruff: noqa: RUF001 - typographic signs


import pytest

from hone_runtime.values.measurement import Interval
from kedro_hone.report import wording


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.034, "1.03×"), (4.58, "4.6×"), (12.3, "12×"), (1234.0, "1,234×"), (0.71, "0.71×")]
)
def test_ratios(ratio, text):
    assert wording.format_ratio(ratio) == text


def test_a_range_never_looks_like_a_point():
    assert wording.format_range(Interval(estimate=4.6, low=4.21, high=5.08)) == "4.2–5.1×"
    assert wording.format_range(Interval(estimate=4.6, low=4.58, high=4.62)) == "4.58–4.62×"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.0123, "12.3 µs"),
        (0.134, "0.134 ms"),
        (2.13, "2.13 ms"),
        (41.0, "41.0 ms"),
        (312.4, "312 ms"),
        (1500, "1.50 s"),
    ],
)
def test_times(milliseconds, text):
    assert wording.format_ms(milliseconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12.0 B"), (280_000, "280 kB"), (999_900, "1.00 MB"), (16_400_000_000, "16.4 GB")]
)
def test_sizes(size, text):
    assert wording.format_bytes(size) == text


def test_one_is_no_plural():
    assert [wording.format_count(count, "build") for count in (0, 1, 1200)] == ["0 builds", "1 build", "1,200 builds"]
    assert wording.format_count(2, "launch", "launches") == "2 launches"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.44, "2.4 s"), (58.3, "58 s"), (346.3, "5 min 46 s"), (7300, "2 h 01 min")]
)
def test_durations(seconds, text):
    assert wording.format_seconds(seconds) == text


def test_shares_are_read_in_points_and_other_metrics_in_their_unit():
    assert wording.format_metric("accuracy_score", 0.9778) == "97.78 %"
    assert wording.format_drop("accuracy", 0.009) == "0.9 points"
    assert wording.format_drop("accuracy", -0.0061) == "−0.61 points"
    assert wording.format_drop("accuracy", -0.00001) == "0.0 points"
    assert wording.format_metric("mean_squared_error", 12.3456) == "12.35"
    assert wording.format_drop("mean_squared_error", 0.12345) == "0.123"


@pytest.mark.parametrize(
    ("name", "text"), [("batch64", "batch 64"), ("batch_8", "batch 8"), ("long_text", "long text")]
)
def test_shape_names(name, text):
    assert wording.format_shape(name) == text
