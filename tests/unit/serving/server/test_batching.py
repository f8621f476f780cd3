from __future__ import annotations

import asyncio

import numpy as np

from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.server.batching import Batcher
from kedro_hone.serving.server.configuration import Batching

X, Y = (TensorSpec(name=name, dtype="float32", shape=("batch", 2)) for name in "xy")
ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(X,), outputs=(Y,), runtime="onnxruntime")


def double(feeds):
    return {"y": feeds["x"] * 2}


def call(requests, *, rows: int = 8, delay_ms: float = 200, run=double):
    """Send requests at once, and return their results and the rows of each call."""
    seen = []

    async def run_one(feeds, _since):
        seen.append(len(feeds["x"]))
        await asyncio.sleep(0.01)
        return run(feeds)

    async def send_all():
        batcher = Batcher(run_one, Batching(rows=rows, delay_ms=delay_ms))
        return await asyncio.gather(*(batcher.run({"x": one}) for one in requests), return_exceptions=True)

    return asyncio.run(send_all()), seen


def test_each_request_gets_its_own_rows_of_a_joined_call() -> None:
    requests = [np.full((1 + at % 3, 2), at, np.float32) for at in range(6)]
    results, seen = call(requests)
    for request, result in zip(requests, results, strict=True):
        np.testing.assert_array_equal(result["y"], request * 2)
    assert sum(seen) == 12
    assert max(seen) <= 8
    assert len(seen) < 6


def test_requests_of_other_shapes_are_other_calls() -> None:
    results, seen = call(
        [np.ones((1, 2), np.float32), np.ones((1, 3), np.float32), np.ones((1, 2), np.float32)], delay_ms=20
    )
    assert [result["y"].shape for result in results] == [(1, 2), (1, 3), (1, 2)]
    assert sorted(seen) == [1, 2]


def test_a_request_with_more_rows_than_a_call_is_a_call_of_its_own() -> None:
    results, seen = call([np.ones((20, 2), np.float32)], delay_ms=1)
    assert results[0]["y"].shape == (20, 2)
    assert seen == [20]


def test_only_the_request_fails_whose_rows_the_model_does_not_take() -> None:
    def fail(feeds):
        if (feeds["x"] < 0).any():
            raise IndexError("out of range")
        return double(feeds)

    good, bad = np.ones((1, 2), np.float32), np.full((1, 2), -1, np.float32)
    results, seen = call([good, bad, good], run=fail, delay_ms=20)
    assert isinstance(results[1], IndexError)
    np.testing.assert_array_equal(results[0]["y"], good * 2)
    np.testing.assert_array_equal(results[2]["y"], good * 2)
    assert seen[0] == 3
    assert seen[1:] == [1, 1, 1]


def test_a_request_whose_client_is_gone_is_not_computed() -> None:
    seen = []

    async def run_one(feeds, _since):
        seen.append(len(feeds["x"]))
        return double(feeds)

    async def send_all():
        batcher = Batcher(run_one, Batching(rows=8, delay_ms=30))
        gone = asyncio.ensure_future(batcher.run({"x": np.ones((3, 2), np.float32)}))
        kept = asyncio.ensure_future(batcher.run({"x": np.ones((1, 2), np.float32)}))
        await asyncio.sleep(0)
        gone.cancel()
        return await kept

    assert asyncio.run(send_all())["y"].shape == (1, 2)
    assert seen == [1]


def test_an_output_with_other_rows_is_an_error() -> None:
    results, _ = call([np.ones((2, 2), np.float32)], run=lambda feeds: {"y": feeds["x"][:1]}, delay_ms=1)
    assert isinstance(results[0], ValueError)
