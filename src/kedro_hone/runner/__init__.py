"""Who runs a search: this machine alone, or a Dask cluster."""

from __future__ import annotations

from kedro_hone.runner.dask import DaskRunner
from kedro_hone.runner.search import SearchRunner

__all__ = ["DaskRunner", "SearchRunner"]
