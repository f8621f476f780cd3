"""A registry of MLflow's in a temporary file and an ONNX winner, as the tests of the registries have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow_store import (
    WARNINGS,
    close_stores,
    empty_database,
    make_winner,
    onnx_model,
    prove,
    set_registry,
)

__all__ = ["empty_database", "make_winner", "onnx_model", "prove"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for warning in WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def registry(empty_database, tmp_path, monkeypatch):
    """An empty registry, which ``models:/`` means in the test."""
    yield set_registry(empty_database, tmp_path, monkeypatch)
    close_stores()
