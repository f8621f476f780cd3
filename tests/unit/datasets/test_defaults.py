"""The entries that a catalog gets without being written."""

from __future__ import annotations

import pytest
import yaml
from kedro.io import DataCatalog, MemoryDataset

from hone_runtime.values.outcome import Refused
from kedro_hone.datasets import RunDataset, StoreDataset, ValueDataset
from kedro_hone.datasets.defaults import DATA, add_defaults, check_names, find_default, read_defaults
from kedro_hone.datasets.errors import DataError

REFUSED = Refused(by="a", reason="no")
MEMORY = {"type": "kedro.io.MemoryDataset"}


def add(catalog, tmp_path, *names):
    add_defaults(catalog, names, project=tmp_path, version="2026-11-29T16.00.00.000Z")
    return catalog


def test_what_the_catalog_lacks_is_added_below_the_project(tmp_path):
    catalog = add(DataCatalog(), tmp_path, "store", "run", "race", "a.b.outcome")
    assert isinstance(catalog["store"], StoreDataset)
    assert isinstance(catalog["run"], RunDataset)
    assert catalog.load("run").folder == tmp_path / "data" / "hone" / "runs" / "2026-11-29T16.00.00.000Z"
    assert isinstance(catalog["race"], ValueDataset)
    catalog.save("a.b.outcome", REFUSED)
    assert (tmp_path / "data" / "hone" / "work" / "a.b.outcome.json").is_file()


def test_outside_of_a_run_the_version_is_the_catalogs(tmp_path):
    entry = {"type": "kedro_hone.datasets.RunDataset", "filepath": str(tmp_path), "versioned": True}
    catalog = DataCatalog.from_config({"mine": entry})
    add_defaults(catalog, ["run"], project=tmp_path, version=None)
    assert catalog.load("run").run_id == catalog.load("mine").run_id


def test_nothing_else_is_added(tmp_path):
    catalog = add(DataCatalog(), tmp_path, "store", "shop", *DATA)
    assert catalog.keys() == ["store"]


def test_a_users_entry_wins(tmp_path):
    catalog = add(DataCatalog.from_config({"race": MEMORY, "a.outcome": MEMORY}), tmp_path, "race", "a.outcome")
    assert isinstance(catalog["race"], MemoryDataset)
    assert isinstance(catalog["a.outcome"], MemoryDataset)


@pytest.mark.parametrize(
    ("pattern", "wins"),
    [
        ("{route}.outcome", True),  # as in a whole catalog of an earlier version
        ("{a}.{b}.outcome", True),  # more fixed characters
        ("{namespace}.{name}", False),
        ("{anything}", False),
    ],
)
def test_a_users_pattern_wins_by_kedros_order(tmp_path, pattern, wins):
    catalog = add(DataCatalog.from_config({pattern: MEMORY}), tmp_path, "x.y.outcome")
    assert isinstance(catalog["x.y.outcome"], MemoryDataset) is wins


def test_no_pattern_of_a_user_takes_the_place_of_a_name(tmp_path):
    catalog = add(DataCatalog.from_config({"{first}ore": MEMORY}), tmp_path, "store")
    assert isinstance(catalog["store"], StoreDataset)


def test_a_default_is_found_by_its_name_or_pattern():
    pattern, entry = find_default("onnx.fast.validation")
    assert pattern == "{route}.validation"
    assert entry["filepath"] == "data/hone/work/onnx.fast.validation.json"
    assert find_default("gate") == ("", None)


def test_every_default_can_be_opened_by_kedro(tmp_path):
    catalog = DataCatalog.from_config(yaml.safe_load(yaml.safe_dump({**read_defaults()})))
    for name in read_defaults():
        assert catalog[name.replace("{route}", "a")] is not None


def make_dataset(place):
    """A dataset of kedro-datasets, by its module and name, which is all that counts; the package is not installed."""
    module, _, name = place.rpartition(".")
    return type(name, (MemoryDataset,), {"__module__": f"kedro_datasets.{module}"})()


def test_a_teams_entry_that_cannot_store_our_value_is_refused():
    table = make_dataset("pandas.csv_dataset.CSVDataset")
    catalog = DataCatalog({"source": table, "gate": table, "shop": table})
    check_names(catalog, ["gate", "shop", "store", "a.b.outcome"])
    with pytest.raises(DataError) as caught:
        check_names(catalog, ["gate", "source"])
    assert (caught.value.slug, "CSVDataset" in caught.value.why) == ("entry-name-taken", True)


def test_entries_that_store_any_value_are_not_refused():
    pickle = make_dataset("pickle.pickle_dataset.PickleDataset")
    check_names(DataCatalog({"race": pickle, "source": MemoryDataset()}), ["race", "source"])
