"""The runners of a search: on this machine only, or on a Dask cluster."""

from __future__ import annotations

from kedro_hone.runner.dask import DaskRunner
from kedro_hone.runner.search import SearchRunner

__all__ = ["DaskRunner", "SearchRunner"]
