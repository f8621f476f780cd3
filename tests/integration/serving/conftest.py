from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import linear_winners as winners
import pytest
from installations import find_environments, install_triton_client
from running_server import Running, Serve, start

from hone_runtime.values.outcome import Failed
from kedro_hone.serving.environment import SERVER


@pytest.fixture(scope="session")
def server_environment() -> None:
    """Build the server's environment where `kedro-hone serve` finds it."""
    built = find_environments().ensure(SERVER)
    assert not isinstance(built, Failed), built.reason


@pytest.fixture(scope="session")
def triton_client() -> dict[str, str]:
    """Variables with which this interpreter finds Triton's client."""
    return {**os.environ, "PYTHONPATH": str(install_triton_client())}


@pytest.fixture
def serve(server_environment, tmp_path) -> Serve:
    """Return a function that starts a server as a context."""
    return lambda *arguments: start(tmp_path, *arguments)


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> Path:
    """A folder with winners, by their names."""
    folder = tmp_path_factory.mktemp("winners")
    winners.write_linear(folder / "linear")
    winners.write_mixed(folder / "mixed")
    winners.write_fixed(folder / "fixed")
    winners.write_odd(folder / "odd")
    winners.write_slow(folder / "slow")
    return folder


@pytest.fixture(scope="session")
def server(server_environment, models, tmp_path_factory) -> Iterator[Running]:
    """One server with four models and small limits."""
    names = ("linear", "mixed", "fixed", "odd")
    limits = ("--max-request-mb", "1", "--max-rows", "100")
    with start(tmp_path_factory.mktemp("server"), *(models / name for name in names), *limits) as running:
        yield running
