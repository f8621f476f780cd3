from __future__ import annotations

import pytest

from hone_runtime.contract import catalogue


@pytest.fixture
def install(monkeypatch):
    """Install a toolchain in the place of the one before."""
    monkeypatch.setenv("HONE_TOY", "1")

    def install(toolchain):
        catalogue.forget_registrations()
        catalogue.register(toolchain)

    yield install
    catalogue.forget_registrations()
