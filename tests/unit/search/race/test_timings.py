from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.workers.host.session import Block
from kedro_hone.search.race.timings import Timings, write_timings


def test_percentiles_only_where_there_are_samples_enough():
    timings = Timings(
        rounds=[{"a": {"b1": [1_000_000] * 60}}, {"a": {"b1": [1_000_000] * 10}, "b": {"b1": [2_000_000]}}]
    )

    (many,) = timings.summarize("a")
    (few,) = timings.summarize("b")

    assert (many.shape, many.n, many.p50_ms, many.p90_ms, many.p99_ms) == ("b1", 70, 1.0, 1.0, None)
    assert (few.p50_ms, few.p90_ms) == (2.0, None)
    assert timings.summarize("c") == ()


def test_raw_timings_are_kept_and_written(tmp_path):
    store, timings = Store(tmp_path), Timings(rounds=[{"a": {"b1": [1, 2, 3]}}, {"a": {"b1": [4, 5]}}])
    key = timings.store(store, "race")

    assert timings.store(store, "race") == key
    write_timings(tmp_path / "timings.npz", {"race": key, "confirm": Timings().store(store, "confirm")}, store)
    with np.load(tmp_path / "timings.npz") as known:
        assert {name: array.tolist() for name, array in known.items()} == {
            "race/a/b1": [1, 2, 3, 4, 5],
            "race/a/b1/calls": [3, 2],
        }


def test_several_clients_are_compared_by_the_time_of_a_block_over_its_calls():
    first = {"source": {"bulk": Block([9, 9, 9, 9], 12)}, "a": {"bulk": Block([3, 3], 4)}}
    second = {"source": {"bulk": Block([8, 8], 8)}, "a": {"bulk": Block([2, 2, 2, 2], 6)}}

    assert Timings(rounds=[first, second]).pair("a", "bulk") == ([3, 4], [2, 1.5])


def test_what_a_client_waits_is_the_latency_and_not_the_time_of_a_block():
    rounds = [
        {"a": {"bulk": Block([4_000_000] * 40, 80_000_000)}},
        {"a": {"bulk": Block([6_000_000] * 40, 160_000_000)}},
    ]
    (bulk,) = Timings(rounds=rounds).summarize("a")

    assert (bulk.n, bulk.p50_ms, bulk.p90_ms, bulk.block_ms, bulk.call_ms) == (80, 5.0, 6.0, 3.0, 3.0)
    (one,) = Timings(rounds=[{"a": {"b1": [4_000_000]}}]).summarize("a")
    assert (one.block_ms, one.call_ms) == (None, 4.0)
    assert "block_ms" not in one.model_dump(mode="json"), "figures of one client are written as before"


def test_the_time_of_each_block_is_kept(tmp_path):
    store = Store(tmp_path)
    timings = Timings(rounds=[{"a": {"b1": [1], "bulk": Block([3, 4], 5)}}, {"a": {"b1": [2], "bulk": Block([6], 6)}}])
    write_timings(tmp_path / "timings.npz", {"race": timings.store(store, "race")}, store)

    with np.load(tmp_path / "timings.npz") as known:
        assert {name: array.tolist() for name, array in known.items()} == {
            "race/a/b1": [1, 2],
            "race/a/b1/calls": [1, 1],
            "race/a/bulk": [3, 4, 6],
            "race/a/bulk/calls": [2, 1],
            "race/a/bulk/walls": [5, 6],
        }


def test_raw_timings_that_the_store_has_lost_are_named(tmp_path):
    with pytest.raises(HoneError, match="race") as caught:
        write_timings(tmp_path / "timings.npz", {"race": "sha256:0"}, Store(tmp_path))
    assert caught.value.slug == "evidence-incomplete"


def test_an_entrant_is_compared_with_the_source_in_its_own_rounds():
    first, second = {"source": {"b1": [10, 20, 90]}}, {"source": {"b1": [6, 8]}, "late": {"b1": [2, 4]}}

    assert Timings(rounds=[first, second]).pair("late", "b1") == ([7], [3])
    assert Timings(rounds=[first, second]).pair("source", "b1") == ([20, 7], [20, 7])
