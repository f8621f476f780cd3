from __future__ import annotations

from kedro_hone.comparing.timings import count_workers, keep_timings, read_timings, summarize_latency
from kedro_hone.core.measuring.rounds import Timings
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.outcome import Failed, FailureClass


def test_percentiles_only_where_there_are_samples_enough():
    timings = Timings()
    timings.add("a", "b1", [1_000_000] * 70)
    timings.add("b", "b1", [2_000_000] * 10)

    (many,) = summarize_latency(timings, "a", ["b1"])
    (few,) = summarize_latency(timings, "b", ["b1"])

    assert (many.p50_ms, many.p90_ms, many.p99_ms) == (1.0, 1.0, None)
    assert (few.p50_ms, few.p90_ms) == (2.0, None)


def test_raw_timings_are_kept_and_read_again(tmp_path):
    store, timings = Store(tmp_path), Timings()
    timings.add("a", "b1", [1, 2, 3])
    timings.add("a", "b1", [4, 5])
    key = keep_timings(store, "race", timings)

    assert keep_timings(store, "race", timings) == key
    known = read_timings(store, key)
    assert {name: array.tolist() for name, array in known.items()} == {
        "race/a/b1": [1, 2, 3, 4, 5],
        "race/a/b1/calls": [3, 2],
    }
    assert read_timings(store, keep_timings(store, "confirm", Timings())) == {}
    assert read_timings(store, "sha256:0") is None


def test_who_had_no_environment_had_no_worker():
    died = Failed(by="b", failure=FailureClass.CRASH, reason="it crashed", log="/x/log")
    absent = Failed(by="c", failure=FailureClass.INSTALL, reason="it is not there")

    assert count_workers({"a": object()}, {"b": died, "c": absent}) == 2
