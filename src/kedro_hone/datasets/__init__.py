"""Datasets for the catalog: pinned input data, values between the nodes, the artifact store, and the run's folder."""

from __future__ import annotations

from kedro_hone.datasets.drafts import DraftDataset
from kedro_hone.datasets.dvc import DVCDataset
from kedro_hone.datasets.files import FileDataset
from kedro_hone.datasets.runs import RunDataset, StoreDataset, ValueDataset

__all__ = ["DVCDataset", "DraftDataset", "FileDataset", "RunDataset", "StoreDataset", "ValueDataset"]
