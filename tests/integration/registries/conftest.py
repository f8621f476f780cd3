"""The fixtures of a real MLflow store."""

from __future__ import annotations

from pathlib import Path

import hub_client
import pytest
from mlflow_store import WARNINGS, empty_database, make_winner, onnx_model, prove, tracking_uri

__all__ = ["empty_database", "make_winner", "onnx_model", "prove", "tracking_uri"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for warning in WARNINGS + hub_client.WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))
