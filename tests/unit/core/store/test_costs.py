from __future__ import annotations

import numpy as np
import pytest

from kedro_hone.core.store.costs import Cost, Share, find_nearest, guess_seconds, guess_share, read_costs, write_cost

LIKE = Cost(what="a", format="onnx", size=1000, seconds=0, outcome="", host="VNNI")


def row(seconds=1.0, *, size=1000, share=None, host="VNNI"):
    return LIKE.model_copy(update={"seconds": seconds, "size": size, "share": share, "host": host})


def test_rows_come_back(tmp_path):
    rows = [row(2.0, share=0.5), row(3.0)]
    for one in rows:
        write_cost(tmp_path, one)
    assert read_costs(tmp_path) == tuple(rows)
    assert read_costs(tmp_path / "costs.jsonl") == tuple(rows)


def test_a_folder_that_nobody_made_is_made(tmp_path):
    write_cost(tmp_path / "cache" / "of" / "a worker", row(2.0))
    assert len(read_costs(tmp_path / "cache" / "of" / "a worker")) == 1


def test_without_a_file_there_are_none(tmp_path):
    assert read_costs(tmp_path) == ()
    assert read_costs(tmp_path / "nothing.jsonl") == ()


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "null", '{"what": 1}', '{"what": "a", "seconds": -1}', '{"share": 7}', "\x00\xff"]
)
def test_a_line_that_is_no_row_is_left_out(tmp_path, line):
    write_cost(tmp_path, row(2.0))
    with (tmp_path / "costs.jsonl").open("a") as stream:
        stream.write(line + "\n")
    write_cost(tmp_path, row(3.0))
    assert [one.seconds for one in read_costs(tmp_path)] == [2.0, 3.0]


def test_nothing_is_guessed_without_rows():
    assert guess_seconds([], LIKE) is None
    assert guess_share([row(1.0)], LIKE) is None


def test_seconds_are_those_of_the_nearest_in_size():
    rows = [row(float(size), size=size) for size in (1, 10, 900, 950, 1000, 1100, 1200, 10**6)]
    assert guess_seconds(rows, LIKE) == 1000.0
    assert [one.size for one in find_nearest(rows, LIKE)] == [1000, 950, 1100, 900, 1200]


def test_rows_of_such_a_processor_are_nearer():
    rows = [row(1.0, host="AVX2 only"), row(5.0, size=2000)]
    assert find_nearest(rows, LIKE)[0].seconds == 5.0
    assert find_nearest([row(1.0, host="AVX2 only"), row(5.0, size=9000)], LIKE)[0].seconds == 1.0


def test_a_model_of_other_operators_is_further_away_by_the_share_that_differs():
    def make(seconds, *operators, size=1000):
        return row(seconds, size=size, share=0.5).model_copy(update={"operators": operators})

    like = LIKE.model_copy(update={"operators": ("Conv", "Relu")})
    rows = [make(1.0, "LSTM"), make(2.0, "Conv", "Relu", "Gemm", size=1100), make(3.0, "Conv", size=2900), make(4.0)]
    assert [one.seconds for one in find_nearest(rows, like)] == [4.0, 2.0, 1.0, 3.0]
    assert guess_share(rows[:1], like) is None
    assert guess_share(rows[1:2], like) is not None


@pytest.mark.parametrize(
    ("shares", "share", "chance"),
    [
        ([1.0, 1.0], 1.0, 0.5),
        ([0.5, 0.5], 0.5, 0.00713),  # ln 0.5 is 2.45 times the deviation of the difference, 0.2 times the root of two
        ([0.8, 0.8, 0.8], 0.8, 0.215),
        ([0.25, 1.0], 0.5, 0.2442),  # they differ: ln 4 over the root of two, so that ln 0.5 is 0.69 deviations
    ],
)
def test_the_chance_to_be_the_best_follows_from_the_shares(shares, share, chance):
    found = guess_share([row(share=one) for one in shares], LIKE)
    assert (found.share, found.rows) == (pytest.approx(share), len(shares))
    assert found.find_chance(Share(1.0, 0.2, 5)) == pytest.approx(chance, rel=0.02)


@pytest.mark.parametrize(
    "other",
    [{"host": "AVX2 only"}, {"inputs": "int64/2"}, {"size": 3100}, {"size": 300}],
    ids=lambda other: next(iter(other)),
)
def test_shares_of_models_that_are_not_similar_tell_nothing(other):
    far = row(2.0, share=0.2).model_copy(update=other)
    assert guess_share([far, far], LIKE) is None
    assert guess_share([far, row(share=0.9)], LIKE).share == pytest.approx(0.9)
    assert guess_seconds([far], LIKE) == 2.0


def test_the_expected_gain_is_that_of_many_draws():
    share = Share(0.8, 0.3, 5)
    draws = share.share * np.exp(share.deviation * np.random.default_rng(0).standard_normal(400_000))
    for best in (0.0, 0.5, 0.8, 1.2):
        assert share.find_gain(best) == pytest.approx(np.maximum(draws - best, 0).mean(), rel=0.02)


def test_what_is_far_below_the_best_gains_nothing():
    assert Share(0.3, 0.2, 5).find_gain(1.0) < 1e-8
