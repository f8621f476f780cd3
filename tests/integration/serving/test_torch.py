"""A winner of PyTorch, in the larger environment, which is built for it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from linear_winners import compute_linear, write_torchscript
from running_server import run_serve

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

X = [[0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4]]


@pytest.fixture
def winner(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, which is a format of winners
        return write_torchscript(tmp_path / "script")


def test_it_is_served_where_it_is_trusted(serve, winner) -> None:
    with serve(winner, "--trust", "native") as running:
        tensor = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": X}
        status, found = running.call("/v2/models/script/infer", {"inputs": [tensor]})
    assert status == 200
    np.testing.assert_allclose(found["outputs"][0]["data"], compute_linear(X).ravel(), rtol=1e-5)


def test_it_is_refused_where_it_is_not(winner) -> None:
    done = run_serve(winner)
    assert done.returncode == 3
    assert "--trust native" in done.stderr
    assert "kedro-hone explain native-not-trusted" in done.stderr
