"""Datasets for the catalog: pinned data in, values between the nodes, and the run's own folder."""

from __future__ import annotations

from kedro_hone.datasets.dvc import DVCDataset
from kedro_hone.datasets.values import ValueDataset
from kedro_hone.datasets.workplace import WorkplaceDataset

__all__ = ["DVCDataset", "ValueDataset", "WorkplaceDataset"]
