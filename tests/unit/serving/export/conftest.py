from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from installations import install_packages


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def model_servers() -> Path:
    """A folder of packages with MLServer and Triton's client: their protobuf conflicts with this interpreter's."""
    return install_packages("model-servers", Path(__file__).with_name("model_servers.lock"))
