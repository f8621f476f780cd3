"""Equal rows of two splits: copies that somebody made, and those of a table with few values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

X = {"name": "features", "dtype": "float32", "shape": ["batch", 2]}


@pytest.fixture
def repeats(worker):
    return worker.repeats


def draw(seed: int, rows: int, kinds: int) -> list[bytes]:
    return [b"%d" % number for number in np.random.default_rng(seed).integers(0, kinds, rows)]


@pytest.mark.parametrize("kinds", [6, 40, 300, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_few_kinds_are_equal_by_nature(repeats, kinds, seed):
    hashes = {
        name: draw(10 * seed + at, rows, kinds) for at, (name, rows) in enumerate((("search", 600), ("gate", 900)))
    }
    assert [*repeats.find_overlaps(hashes)] == []


@pytest.mark.parametrize("copied", [1, 5, 200])
def test_copied_rows_of_a_table_without_equal_rows_are_a_mistake(repeats, copied):
    search = [b"s%d" % at for at in range(200)]
    gate = [b"g%d" % at for at in range(300 - copied)] + search[:copied]
    (found,) = repeats.find_overlaps({"search": search, "gate": gate})
    assert found == {"splits": ["search", "gate"], "count": copied, "example_rows": [0, 300 - copied]}


def test_one_split_that_is_another_is_a_mistake(repeats):
    rows = draw(0, 500, 5000)
    assert [*repeats.find_overlaps({"search": rows, "gate": rows})]


@pytest.mark.parametrize("rows", [4, 40, 900])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_whole_gate_in_another_split_is_a_mistake_however_often_each_row_is(repeats, rows, times):
    gate = [b"g%d" % at for at in range(rows)]
    others = [b"s%d" % at for at in range(rows)]
    for search in (gate * times, gate * times + others * (times > 1)):
        for name in ("search", "calibration"):
            assert [*repeats.find_overlaps({"gate": gate, name: search})]
            assert [*repeats.find_overlaps({name: search, "gate": gate})]
            assert [*repeats.find_overlaps({name: gate, "gate": search})]


def test_a_few_copies_in_the_gate_do_not_excuse_one(repeats):
    gate = [b"g%d" % at for at in range(1000)]
    assert [*repeats.find_overlaps({"gate": [*gate, *gate[:20]], "search": gate * 2})]


def test_a_row_counts_in_the_most_important_split_that_has_it(repeats):
    hashes = {"calibration": [b"a", b"b", b"c"], "search": [b"a", b"b", b"d", b"d"], "gate": [b"a", b"e"]}
    kept, said = repeats.find_repeats(hashes)
    assert kept == {"search": [1, 2, 3], "calibration": [2]}
    counts = "search: 1 of 4 rows are rows of gate; calibration: 2 of 3 rows are rows of gate or search"
    assert said == [f"{counts}, too, and left out: equal rows, as a table of few values has, count once"]


def test_where_too_few_would_stay_all_do_and_it_says_how_many_are_different(repeats):
    kept, said = repeats.find_repeats({"search": draw(0, 600, 6), "gate": draw(1, 900, 6)})
    assert kept == {}
    assert said[0].startswith("search: 600 of 600 rows are rows of gate, too, since there are only 6 different ones")


def test_what_is_left_out_is_in_no_file(worker, make_job, save):
    few = lambda seed: np.random.default_rng(seed).integers(0, 40, (300, 2))  # noqa: E731
    splits = {name: {"path": save(f"{name}.npz", features=few(seed))} for seed, name in enumerate(("search", "gate"))}
    job = make_job("fidelity", inputs=[X], splits=splits)
    notes = worker.read(job)
    assert notes["overlaps"] == []
    assert notes["splits"]["gate"]["n"] == 300
    with np.load(Path(job["output"], "search", "feeds.npz")) as feeds:
        assert len(feeds["features"]) == notes["splits"]["search"]["n"] < 300
    assert any("rows of gate, too, and left out" in line for line in notes["warnings"])


def hash_rows(prefix, count, *, times=1):
    return [f"{prefix}{at}".encode() for at in range(count)] * times


@pytest.mark.parametrize("judge", ["gate", "search"])
def test_rows_that_judge_never_train_however_natural_they_are(repeats, judge):
    """Each row is twice in its own split, as in a table of few values."""
    judged, own = hash_rows("g", 300, times=2), hash_rows("t", 200, times=2)
    hashes = {judge: judged, "training": [*judged[:200], *own], "calibration": hash_rows("c", 60, times=2)}
    assert [*repeats.find_overlaps(hashes)] == []
    kept, said = repeats.find_repeats(hashes)
    assert kept["training"] == [*range(200, 600)]
    assert "training: 200 of 600 rows are rows of" in said[-1]


@pytest.mark.parametrize("own", [0, 100])
def test_a_training_split_that_is_mostly_rows_that_judge_is_refused(repeats, own):
    gate, search = hash_rows("g", 300, times=2), hash_rows("s", 150, times=2)
    hashes = {"gate": gate, "search": search, "training": [*gate, *hash_rows("t", own)]}
    (found,) = repeats.find_overlaps(hashes)
    assert (found["splits"], found["count"]) == (["gate", "training"], 300)
    both = {"gate": gate, "search": search, "training": [*gate[:300], *search]}
    assert [one["splits"] for one in repeats.find_overlaps(both)] == [["gate", "training"], ["search", "training"]]
