from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

from kedro_hone.core.store.costs import (
    LEAST_PAIRED,
    Cost,
    Share,
    find_nearest,
    guess_ratio,
    guess_seconds,
    guess_share,
    read_costs,
    write_cost,
)

LIKE = Cost(what="a", format="onnx", size=1000, seconds=0, outcome="", host="VNNI")


def row(seconds=1.0, *, size=1000, share=None, host="VNNI", shares=None, race=""):
    told = {"seconds": seconds, "size": size, "share": share, "host": host, "shares": shares or {}, "race": race}
    return LIKE.model_copy(update=told)


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
    "line",
    [
        *("", "{", "[]", "null", '{"what": 1}', '{"what": "a", "seconds": -1}', '{"share": 7}', "\x00\xff"),
        json.dumps(LIKE.model_dump(mode="json") | {"size": 10**400}),
        *(
            json.dumps(LIKE.model_dump(mode="json") | {"shares": each})
            for each in ({"0": 1}, {"1": 0}, {"1" + "0" * 400: 1}, {"x": 1}, {"1": 1001})
        ),
    ],
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


def test_refusals_say_not_how_long_a_build_takes():
    rows = [row(60.0), row(62.0), *(row(0.2).model_copy(update={"outcome": "refused"}) for _ in range(3))]
    assert guess_seconds(rows, row()) == pytest.approx(61.0)
    assert guess_seconds(rows[2:], row()) == pytest.approx(0.2)


def test_what_the_budget_cut_takes_as_long_at_least():
    cut = [row(seconds).model_copy(update={"outcome": "cut"}) for seconds in (20.0, 25.0)]
    assert guess_seconds(cut, row()) == pytest.approx(25.0)
    assert guess_seconds([row(300.0), *cut], row()) == pytest.approx(300.0)


def test_refusals_are_no_rows_that_tell():
    refused = row(1.0).model_copy(update={"outcome": "refused"})
    assert guess_seconds([row(300.0), refused], row(), least=2) is None
    assert guess_seconds([row(300.0), row(10.0), refused], row(), least=2) == pytest.approx(155.0)


def test_of_two_batch_sizes_that_are_as_near_the_smaller_one_counts():
    shares = {1: 1.0, 64: 0.1}
    found = [row(shares=dict(pairs)).find_share(8) for pairs in (shares.items(), reversed(shares.items()))]
    assert found == [1.0, 1.0]


def test_seconds_of_models_that_are_not_similar_do_not_count_where_two_are():
    """Five of another kind of processor made a minute of compilation eight seconds; one alone may be a busy run's."""
    rows = [row(8.0, host="AVX2 only") for _ in range(5)]
    assert guess_seconds([*rows, row(60.0, size=1500), row(50.0)], LIKE) == 55.0
    assert guess_seconds([*rows, row(60.0, size=1500)], LIKE) == 8.0
    assert guess_seconds(rows, LIKE) == 8.0


def test_two_rows_of_the_same_model_count_alone():
    """It was trained again: what a step took is known better than by models of its kind."""
    rows = [row(4.0, size=1400) for _ in range(5)]
    assert guess_seconds([*rows, row(12.0), row(13.0)], LIKE) == pytest.approx(12.5)


def test_a_share_that_nobody_can_have_measured_does_not_raise():
    assert guess_share([row(share=1e-300), row(share=1.0)], LIKE).find_gain(Share(1.0, 0.2, 2)) > 0


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
    ("shares", "share", "deviation"),
    [
        ([1.0, 1.0], 1.0, 0.2),
        ([0.8, 0.8, 0.8], 0.8, 0.2),
        ([0.25, 1.0], 0.5, 0.9803),  # ln 4 over the root of two
    ],
)
def test_the_share_is_that_of_similar_models_with_their_deviation(shares, share, deviation):
    found = guess_share([row(share=one) for one in shares], LIKE)
    assert found == (pytest.approx(share), pytest.approx(deviation, rel=1e-4), len(shares))


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


@pytest.mark.parametrize(("share", "deviation"), [(0.5, 0.2), (0.8, 0.2), (1.2, 0.2), (0.9, 0.8)])
def test_the_expected_gain_is_that_of_many_draws(share, deviation):
    one, best = Share(0.8, 0.3, 5), Share(share, deviation, 5)
    draw = np.random.default_rng(0)
    mine, others = (each.share * np.exp(each.deviation * draw.standard_normal(400_000)) for each in (one, best))
    assert one.find_gain(best) == pytest.approx(np.maximum(mine - others, 0).mean(), rel=0.02)
    assert one.find_gain(None) == pytest.approx(mine.mean(), rel=0.01)


def test_what_is_far_below_the_best_gains_nothing():
    assert 0 <= Share(0.3, 0.2, 5).find_gain(Share(1.0, 0.2, 5)) < 1e-6
    for share in np.linspace(0.05, 0.5, 200):  # a difference of two numbers that are nearly equal
        assert Share(share, 0.1, 3).find_gain(Share(1.0, 0.2, 3)) >= 0


def test_a_best_that_is_a_guess_leaves_more_to_gain():
    """At 0.65 with a chance of a third."""
    assert Share(0.65, 0.2, 5).find_gain(Share(0.9, 0.8, 2)) > 0.1 * 0.9


def race(number, mine, other):
    """Return the rows of two candidates of one race."""
    return [row(share=1.0, shares={8: share}, race=str(number)) for share in (mine, other)]


def split(races):
    return [[pair[place] for pair in races] for place in (0, 1)]


def test_a_ratio_is_that_of_the_races_in_which_both_were():
    races = [race(number, 0.5 * share, share) for number, share in enumerate((1.0, 0.5, 0.1))]
    mine, other = split(races)
    alone = [row(share=1.0, shares={8: 1.0}, race=""), row(share=1.0, shares={8: 1.0}, race="alone")]
    found = guess_ratio([*mine, *alone], [*other, row(share=1.0, shares={8: 1.0})], LIKE, 8)
    assert found == (pytest.approx(0.5), LEAST_PAIRED, 3), "whatever the model does to the speed of both"
    two = guess_ratio(mine[:2], other, LIKE, 8)
    assert two == (pytest.approx(0.5), pytest.approx(math.hypot(0.2, 0.2)), 2), "as uncertain as two shares"
    assert guess_ratio(mine[:1], other, LIKE, 8) is None
    assert guess_ratio(mine, other[2:], LIKE, 8) is None


def test_a_ratio_that_differs_from_race_to_race_is_as_uncertain():
    mine, other = split([race(number, share, 0.5) for number, share in enumerate((0.25, 0.5, 1.0))])
    found = guess_ratio(mine, other, LIKE, 8)
    assert found.share == pytest.approx(1.0)
    assert found.deviation == pytest.approx(math.log(2) * math.sqrt(4 / 3))


def test_rows_without_batch_sizes_or_of_other_models_tell_no_ratio():
    mine, other = split([race(number, 0.5, 1.0) for number in range(3)])
    assert guess_ratio([one.model_copy(update={"shares": {}}) for one in mine], other, LIKE, 8) is None
    assert guess_ratio(mine, [one.model_copy(update={"shares": {}}) for one in other], LIKE, 8) is None
    far = LIKE.model_copy(update={"size": 100 * LIKE.size})
    assert guess_ratio(mine, other, far, 8) is None


@pytest.mark.parametrize("told", [{"threads": 64}, {"elements": 4096}])
def test_many_more_threads_or_larger_rows_are_another_kind(told):
    like = LIKE.model_copy(update={"threads": 1, "elements": 8})
    near, far = (like.model_copy(update={"share": 0.5, **more}) for more in ({}, told))
    assert guess_share([near], like).share == pytest.approx(0.5)
    assert guess_share([far], like) is None
    assert guess_share([row(share=0.5)], like).share == pytest.approx(0.5), "where nothing tells, nothing differs"


def test_only_the_end_of_a_large_file_is_read(tmp_path, monkeypatch):
    write_cost(tmp_path, row(1.0))
    size = (tmp_path / "costs.jsonl").stat().st_size
    for _ in range(3):
        write_cost(tmp_path, row(2.0))
    monkeypatch.setattr("kedro_hone.core.store.costs._MOST_BYTES", 3 * size + 5)
    assert [one.seconds for one in read_costs(tmp_path)] == [2.0] * 3


@pytest.mark.attack(
    what="a pipe, a device or a link as the memory of a store, for who reads and writes it",
    who="store",
    stopped_by="only regular files are opened",
)
@pytest.mark.parametrize("kind", ["fifo", "link", "device", "folder"])
def test_what_is_no_regular_file_is_neither_read_nor_written(tmp_path, kind):
    file = tmp_path / "costs.jsonl"
    (tmp_path / "other.jsonl").write_text(json.dumps(row(2.0).model_dump()))
    make = {
        "fifo": lambda: os.mkfifo(file),
        "link": lambda: file.symlink_to(tmp_path / "other.jsonl"),
        "device": lambda: file.symlink_to("/dev/zero"),
        "folder": file.mkdir,
    }
    make[kind]()
    assert read_costs(tmp_path) == ()
    with pytest.raises(OSError, match="regular"):
        write_cost(tmp_path, row(3.0))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_rows_of_another_user_are_not_read(tmp_path):
    write_cost(tmp_path, row(2.0))
    assert len(read_costs(tmp_path)) == 1
    os.chown(tmp_path / "costs.jsonl", 12345, -1)
    assert read_costs(tmp_path) == ()


@pytest.mark.parametrize(
    "changes",
    [{"seconds": 1e6}, {"share": 1e-9}, {"shares": {8: 1e-5}}],
)
def test_what_nobody_can_have_measured_is_left_out(tmp_path, changes):
    """Such rows would hide a candidate: it would never be tried, since it takes too long or is too slow."""
    write_cost(tmp_path, row(2.0).model_copy(update=changes))
    write_cost(tmp_path, row(3.0))
    assert [one.seconds for one in read_costs(tmp_path)] == [3.0]
