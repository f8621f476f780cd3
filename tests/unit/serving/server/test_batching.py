from __future__ import annotations

import asyncio

import numpy as np
import pytest

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import make_golden
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.server.batching import Batcher, check_batching, vary_rows
from kedro_hone.serving.server.configuration import Batching

X, Y = (TensorSpec(name=name, dtype="float32", shape=("batch", 2)) for name in "xy")
ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(X,), outputs=(Y,), runtime="onnxruntime")


def double(feeds):
    return {"y": feeds["x"] * 2}


def centre(feeds):
    return {"y": feeds["x"] - feeds["x"].mean(axis=0)}


def make_rows(run, count: int = 4):
    feeds = {"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2)}
    return make_golden(feeds, run(feeds), rows=count, largest_error=0, source=ARTIFACT, host=read_host())


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


def test_all_requests_of_a_failed_call_fail_and_the_next_succeeds() -> None:
    def fail(_):
        raise MemoryError("none")

    results, _ = call([np.ones((1, 2), np.float32)] * 3, run=fail, delay_ms=5)
    assert [type(one) for one in results] == [MemoryError] * 3


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


@pytest.mark.parametrize("count", [1, 4, 40])
def test_independent_rows_may_be_joined(count: int) -> None:
    check_batching("m", ARTIFACT, double, golden=make_rows(double, count), rows=16)


def test_few_rows_are_varied_without_new_values_of_whole_numbers() -> None:
    feeds = {"ids": np.array([[1, 2, 3]]), "age": np.array([[40.0]]), "word": np.array([["a"]])}
    found = vary_rows(feeds, 4)
    assert found["ids"].tolist() == [[1, 2, 3], [3, 1, 2], [2, 3, 1], [1, 2, 3]]
    assert found["age"].ravel().tolist() == [40, 50, 60, 70]
    assert found["word"].ravel().tolist() == ["a"] * 4


def test_rows_that_cannot_be_told_apart_are_refused() -> None:
    zeros = {"x": np.zeros((1, 2), np.float32)}
    golden = make_golden(zeros, double(zeros), rows=1, largest_error=0, source=ARTIFACT, host=read_host())
    with pytest.raises(HoneError, match="golden rows are equal"):
        check_batching("m", ARTIFACT, double, golden=golden, rows=16)


@pytest.mark.parametrize(
    ("artifact", "run", "count", "why"),
    [
        (ARTIFACT, centre, 4, "of 16 rows its output y differs"),
        (ARTIFACT, centre, 1, "of 16 rows its output y differs"),
        (ARTIFACT, double, 0, "no golden rows"),
        (
            ARTIFACT.model_copy(update={"inputs": (X.model_copy(update={"shape": (4, 2)}),)}),
            double,
            4,
            "first axis of x",
        ),
        (
            ARTIFACT.model_copy(update={"outputs": (Y.model_copy(update={"shape": (2, "batch")}),)}),
            double,
            4,
            "first axis of y",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused_with_the_reason(artifact, run, count: int, why: str) -> None:
    with pytest.raises(HoneError, match=why) as refused:
        check_batching("m", artifact, run, golden=make_rows(run, count), rows=16)
    assert refused.value.slug == "batching-unfit"
