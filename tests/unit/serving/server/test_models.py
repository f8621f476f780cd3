from __future__ import annotations

import os
from contextlib import ExitStack

import pytest
from served_winners import make_onnx_winner

from kedro_hone.serving.launch import describe_model
from kedro_hone.serving.server.configuration import Batching, Limits
from kedro_hone.serving.server.metrics import make_metrics
from kedro_hone.serving.server.models import open_model

SAVED = {"graph_optimization": "disabled"}


@pytest.mark.parametrize(
    ("options", "batching", "calls"),
    [
        ({**SAVED, "streams": 4}, None, 4),
        (SAVED, None, 1),
        ({**SAVED, "streams": 4}, Batching(rows=8, delay_ms=1.0), 1),
    ],
)
def test_as_many_calls_run_at_once_as_the_winner_has_streams(tmp_path, monkeypatch, options, batching, calls):
    with ExitStack() as stack:
        winner = make_onnx_winner(tmp_path / "w", stack=stack, run_options=options, metadata={"threads": 4})
        configuration = describe_model(winner, batching=batching)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
        model = open_model(configuration, limits=Limits(), metrics=make_metrics())

    assert model._caller._max_workers == calls
