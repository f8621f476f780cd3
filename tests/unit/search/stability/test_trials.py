"""Which rows of a source are tried, in which company."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from kedro_hone.search.stability.trials import mask_padding, plan_trials


def plan(folder, *, rows=90, largest=32, batch="batch", static=()):
    spec = TensorSpec(name="x", dtype="float32", shape=(batch, 2))
    source = Artifact(format="onnx", digest="d", inputs=(spec,), outputs=(), static_shapes=static)
    feeds, split = folder / "feeds.npz", SimpleNamespace(n=rows)
    np.savez(feeds, x=np.arange(2.0 * rows).reshape(rows, 2))
    samples = SimpleNamespace(splits={"search": split})
    trials = plan_trials(SimpleNamespace(source=source, largest_batch=largest, samples=samples), feeds, folder)
    return trials, {trial.name: trial for trial in (*trials.first, *trials.again, *trials.others)}


def test_rows_are_spread_over_the_split_and_turned_among_others(tmp_path):
    trials, named = plan(tmp_path)

    first = named["first-1"]
    assert (len(first.places), first.batch) == (16, 16)
    assert (first.places[0], first.places[-1]) == (0, 89)
    assert {trial.places for trial in (*trials.first, *trials.again)} == {first.places}
    turned = named["turned"].places
    assert turned[::2] == tuple(reversed(first.places))[::2]
    assert not set(turned[1::2]) & set(first.places)
    assert (named["alone"].batch, len(named["alone"].places)) == (1, 8)
    assert set(named["alone"].places) < set(first.places)
    assert (set(named["copies"].places), named["copies"].batch) == ({0, 24, 47, 71}, 16)
    with np.load(named["turned"].run[0]) as arrays:
        assert arrays["x"][:, 0].tolist() == [2.0 * place for place in turned]


@pytest.mark.parametrize(("batch", "size"), [(1, 16), (4, 16), (5, 15), (64, 64)])
def test_a_model_of_one_batch_size_gets_no_other(tmp_path, batch, size):
    _, named = plan(tmp_path, largest=batch, batch=batch)

    assert named.keys() == {"first-1", "first-2", "again-1", "again-2", "turned"}
    assert {(trial.batch, len(trial.places)) for trial in named.values()} == {(batch, size)}


def test_neither_does_one_of_fixed_sizes(tmp_path):
    _, named = plan(tmp_path, largest=8, static=(Shape(name="a", sizes={"batch": 8}),))

    assert {trial.batch for trial in named.values()} == {8}
    assert "alone" not in named


@pytest.mark.parametrize(("largest", "batch", "wide"), [(1, 1, 7), (6, 6, 7), (64, 16, 16)])
def test_the_worker_of_the_reference_is_given_no_more_rows_at_once_than_ever(tmp_path, largest, batch, wide):
    trials, named = plan(tmp_path, largest=largest)

    assert {trial.batch for trial in (*trials.first, *trials.again)} == {batch}
    assert len(trials.first[0].places) % batch == 0
    assert named["turned"].batch == wide
    assert len(named["turned"].places) % wide == 0


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_are_repeated(tmp_path, rows):
    _, named = plan(tmp_path, rows=rows)

    assert set(named["first-1"].places) == set(range(rows))
    assert len(named["first-1"].places) == 16


def test_what_is_said_of_padding_does_not_count():
    outputs = (
        TensorSpec(name="tokens", dtype="float32", shape=("batch", "length", 3)),
        TensorSpec(name="pooled", dtype="float32", shape=("batch", 3)),
    )
    source = Artifact(format="onnx", digest="d", inputs=(), outputs=outputs)
    feeds = {"attention_mask": np.array([[1, 1, 0], [0, 1, 1]])}
    found = {"tokens": np.full((2, 3, 3), np.nan), "pooled": np.ones((2, 3))}

    masked = mask_padding(found, feeds, source)

    assert np.isnan(masked["tokens"]).all(axis=2).tolist() == [[True, True, False], [False, True, True]]
    assert masked["pooled"] is found["pooled"]
