"""Calls without padding: what reaches the runtime, and what comes back."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.learner.padding import serve_without_padding
from hone_runtime.values.artifact import Artifact, Shape, TensorSpec

TEXT = ("batch", "length")
LENGTHS = [3, 9, 1, 4, 9, 2, 5]


def make_artifact(*, outputs=(("pooled", ("batch", 4)),), kind="bert", static=False, inputs=("ids", "attention_mask")):
    def name(tensors, dtype):
        return tuple(TensorSpec(name=one, dtype=dtype, shape=shape) for one, shape in tensors)

    return Artifact(
        format="onnx",
        digest="",
        inputs=name([(one, TEXT) for one in inputs], "int64"),
        outputs=name(outputs, "float32"),
        static_shapes=(Shape(name="a", sizes={"batch": 7, "length": 12}),) if static else (),
        metadata={"transformers": {"config": {"model_type": kind}}},
    )


def make_feeds(lengths=LENGTHS, width=12, *, left=False):
    ids = np.random.default_rng(0).integers(1, 9, (len(lengths), width))
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int64)
    return {"ids": ids, "attention_mask": mask[:, ::-1].copy() if left else mask}


class Encoder:
    """Sums and tokens of what the mask shows; remembers the shapes of its calls."""

    def __init__(self, outputs=("pooled", "tokens")):
        self.calls, self.outputs = [], outputs

    def run(self, feeds):
        assert all(array.flags.c_contiguous for array in feeds.values())
        self.calls.append(feeds["ids"].shape)
        tokens = (feeds["ids"] * feeds["attention_mask"]).astype(np.float32)
        sums = tokens.sum(1)
        made = {"pooled": np.stack([sums] * 4, 1), "tokens": np.stack([tokens + sums[:, None]] * 2, 2)}
        return {name: made[name] for name in self.outputs}


def call(feeds, artifact, *, zeros=None, rows=2):
    encoder = Encoder([spec.name for spec in artifact.outputs])
    return serve_without_padding(encoder.run, artifact, rows=rows, zeros=zeros)(feeds), encoder.calls


def test_rows_are_called_in_groups_of_their_length_and_come_back_in_their_order():
    feeds = make_feeds()
    found, calls = call(feeds, make_artifact())
    assert calls == [(2, 2), (2, 4), (2, 9), (1, 9)]
    np.testing.assert_array_equal(found["pooled"], Encoder().run(feeds)["pooled"])


def test_few_rows_and_rows_of_about_one_length_are_one_call_of_the_longest():
    for lengths, rows in ((LENGTHS, 8), ([9, 8, 9, 9, 8, 9, 9], 2)):
        feeds = make_feeds(lengths)
        found, calls = call(feeds, make_artifact(), rows=rows)
        assert calls == [(7, 9)]
        np.testing.assert_array_equal(found["pooled"], Encoder().run(feeds)["pooled"])


@pytest.mark.parametrize("rows", [2, 8])
def test_places_of_padding_are_zeros_where_they_may_be(rows):
    artifact = make_artifact(outputs=(("pooled", ("batch", 4)), ("tokens", ("batch", "length", 2))))
    feeds = make_feeds()
    wanted = Encoder().run(feeds)
    assert call(feeds, artifact, rows=rows)[1] == call(feeds, artifact, rows=rows, zeros=False)[1] == [(7, 12)]
    found, calls = call(feeds, artifact, rows=rows, zeros=True)
    assert sum(a * b for a, b in calls) < 7 * 12
    real = feeds["attention_mask"].astype(bool)
    assert found["tokens"].shape == (7, 12, 2)
    np.testing.assert_array_equal(found["tokens"][real], wanted["tokens"][real])
    assert not found["tokens"][~real].any()
    np.testing.assert_array_equal(found["pooled"], wanted["pooled"])


@pytest.mark.parametrize(
    "feeds",
    [
        make_feeds(left=True),
        make_feeds([12] * 7),
        make_feeds([0, *LENGTHS[1:]]),
        {**make_feeds(), "attention_mask": np.eye(7, 12, dtype=np.int64)},
        {name: array[:0] for name, array in make_feeds().items()},
    ],
    ids=["on the left", "none", "a row without a token", "holes", "no rows"],
)
def test_other_masks_are_called_as_they_are(feeds):
    assert call(feeds, make_artifact())[1] == [feeds["ids"].shape]


@pytest.mark.parametrize(
    "artifact",
    [
        make_artifact(kind="fnet"),
        make_artifact(static=True),
        make_artifact(outputs=(("pooled", ("4", "batch")),)),
        make_artifact(outputs=(("pooled", ("batch", 4)), ("bias", ("batch", 2, "length")))),
    ],
    ids=["it sees padding", "compiled for sizes", "no rows", "length elsewhere"],
)
def test_other_models_are_called_as_they_are(artifact):
    run = Encoder().run
    assert serve_without_padding(run, artifact, rows=2, zeros=True) == run


def test_a_model_without_a_mask_is_called_as_it_is():
    run = Encoder().run
    assert serve_without_padding(run, make_artifact(inputs=("ids",)), rows=2, zeros=True) == run
