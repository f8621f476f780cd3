"""Entries of the splits, as a project has them and as a person reads them."""

from __future__ import annotations

import pytest
import yaml

from kedro_hone.derivation.entries import list_entries, write_entry


def test_drawn_inputs_are_marked():
    assert list_entries({"gate": "gate.npz"}, drawn=True)["gate"]["type"] == "kedro_hone.datasets.DraftDataset"


@pytest.mark.parametrize("path", ["data/gate.csv", "s3://shop/gate.parquet", "a b/c: #d.csv", "{x}/é.csv", 'a"b/c'])
def test_a_line_is_the_entry_in_yaml(path):
    assert yaml.safe_load(write_entry("gate", path)) == list_entries({"gate": path})


def test_without_a_path_the_file_has_the_name_of_the_split():
    assert write_entry("gate") == "gate: {type: kedro_hone.datasets.FileDataset, path: data/gate.csv}"
