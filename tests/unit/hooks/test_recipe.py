"""The hooks in a project of others: what is not kedro-hone's stays as it is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kedro.config import OmegaConfigLoader
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline

from hone_runtime.errors import HoneError
from kedro_hone import graph
from kedro_hone.hooks import recipe as module
from kedro_hone.hooks.membership import has_own, list_datasets


def make_node(package, inputs, outputs):
    def step(*_):
        return None

    step.__module__ = f"{package}.nodes.step"
    return Node(step, inputs, outputs, name=f"{package}-{outputs}")


OURS = make_node("kedro_hone", ["store", "gate", "raw"], "race")
THEIRS = make_node("shop", "bought", "raw")


@pytest.fixture
def project(tmp_path, monkeypatch):
    for env in ("base", "local"):
        (tmp_path / "conf" / env).mkdir(parents=True)
    (tmp_path / "conf" / "base" / "catalog.yml").write_text("raw: {type: MemoryDataset}\n")
    monkeypatch.setattr(module, "set_parameters", lambda parameters: graph._current.update(hone=parameters))
    monkeypatch.setattr(module, "configure_logging", lambda _: None)
    monkeypatch.setattr(module.project, "pipelines", {"all": Pipeline([OURS, THEIRS])})
    yield tmp_path
    graph.forget_parameters()


def start(project, recipe=""):
    (project / "conf" / "base" / "parameters.yml").write_text(f"shop: 1\n{recipe}")
    loader = OmegaConfigLoader(str(project / "conf"), base_env="base", default_run_env="local")
    hooks = module.RecipeHooks()
    hooks.after_context_created(SimpleNamespace(config_loader=loader, project_path=project))
    return hooks


RECIPE = "hone: {model: {uri: models/m}, program: {name: fidelity}, shapes: {one: {batch: 1}}}\n"


def test_without_a_recipe_nothing_happens(project):
    graph._current["hone"] = {"of": "an earlier session"}
    hooks, catalog = start(project), DataCatalog()
    assert not graph._current
    hooks.after_catalog_created(catalog, save_version=None)
    hooks.before_pipeline_run({}, Pipeline([OURS]), catalog)
    assert catalog.keys() == []


def test_with_a_recipe_a_pipeline_of_others_is_left_alone(project):
    hooks, catalog = start(project, RECIPE), DataCatalog()
    hooks.before_pipeline_run({}, Pipeline([THEIRS]), catalog)
    assert catalog.keys() == []


def test_the_catalog_gets_what_our_nodes_need_and_no_name_of_others(project):
    hooks, catalog = start(project, RECIPE), DataCatalog()
    hooks.after_catalog_created(catalog, save_version=None)
    assert {*catalog.keys()} == {"store", "race"}


@pytest.mark.parametrize("split", ["gate", "training"])
def test_a_missing_split_is_answered_with_the_line_to_add(project, split):
    hooks, catalog = start(project, RECIPE), DataCatalog()
    ours = make_node("kedro_hone", ["store", split, "raw"], "race")
    with pytest.raises(HoneError, match=f"no entry '{split}'") as caught:
        hooks.before_pipeline_run({"run_id": "r"}, Pipeline([ours]), catalog)
    assert caught.value.slug == "catalog-incomplete"
    assert f"{split}: {{type: kedro_hone.datasets.FileDataset, path: data/{split}.csv}}" in caught.value.hint
    assert "store" in catalog.keys()  # noqa: SIM118 - a catalog contains what a pattern matches, too


def test_an_entry_of_others_by_a_name_of_ours_ends_the_run_before_it_starts(project):
    table = type("CSVDataset", (MemoryDataset,), {"__module__": "kedro_datasets.pandas.csv_dataset"})()
    hooks, catalog = start(project, RECIPE), DataCatalog({"race": table})
    hooks.after_catalog_created(catalog, save_version=None)  # their own pipelines still run
    with pytest.raises(HoneError, match="an entry 'race'") as caught:
        hooks.before_pipeline_run({"run_id": "r"}, Pipeline([OURS]), catalog)
    assert caught.value.slug == "entry-name-taken"


def test_a_node_is_ours_by_its_function():
    assert has_own(Pipeline([OURS, THEIRS]))
    assert not has_own(Pipeline([THEIRS]))
    assert list_datasets([OURS, THEIRS]) == {"store", "gate", "race"}
