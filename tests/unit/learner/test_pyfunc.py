"""Versions that were published before ``hone_runtime`` name this module as their loader."""

from __future__ import annotations

from hone_runtime.learner import pyfunc
from kedro_hone.learner import pyfunc as former


def test_the_former_module_has_what_mlflow_calls():
    assert former._load_pyfunc is pyfunc._load_pyfunc
