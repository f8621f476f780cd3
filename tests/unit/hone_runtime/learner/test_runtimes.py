"""Runtimes: how many calls of a winner are computed at once."""

from __future__ import annotations

import os

import pytest

from hone_runtime.learner.runtimes import count_calls
from hone_runtime.values.artifact import Artifact


def make_artifact(options=None, **attributes):
    given = {"format": "onnx", "runtime": "onnxruntime", "run_options": options or {}, **attributes}
    return Artifact(digest="", inputs=(), outputs=(), **given)


@pytest.mark.parametrize(
    ("options", "threads", "calls"),
    [
        ({"streams": 16}, 16, 16),
        ({"streams": 4}, 16, 4),
        ({"streams": 4}, 2, 2),
        ({"NUM_STREAMS": 4, "PERFORMANCE_HINT": "THROUGHPUT"}, 8, 4),
        ({"PERFORMANCE_HINT": "THROUGHPUT"}, 8, 8),
        ({"PERFORMANCE_HINT": "LATENCY"}, 16, 1),
        ({}, 16, 1),
        ({}, 4, 4),
        ({}, 32, 1),
    ],
)
def test_threads_are_the_total_of_a_winner_with_streams_and_of_each_call_without(monkeypatch, options, threads, calls):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))

    assert count_calls(make_artifact(options), threads) == calls


def test_a_composite_has_the_calls_of_its_part_with_most(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    part = {"candidate": "a", "digest": "sha256:1", "runtime": "onnxruntime", "format": "onnx"}
    parts = [part, {**part, "run_options": {"streams": 8}}]

    artifact = make_artifact(format="composite", runtime="composite", metadata={"parts": parts})

    assert count_calls(artifact, 16) == 8
