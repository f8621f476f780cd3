"""Datasets for the catalog: pinned data in, values between the nodes."""

from __future__ import annotations

from kedro_hone.datasets.dvc import DVCDataset
from kedro_hone.datasets.values import ValueDataset

__all__ = ["DVCDataset", "ValueDataset"]
