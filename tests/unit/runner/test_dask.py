"""Which nodes run on a Dask cluster, and what a run needs before it finds one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kedro.framework.hooks.manager import _NullPluginManager
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Pipeline, node

from hone_runtime.errors import HoneError
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.runner import dask as module
from kedro_hone.runner import schedule
from kedro_hone.runner.dask import DaskRunner, _count_threads, connect, find_needs


@pytest.mark.parametrize(
    ("tags", "needs"),
    [
        (["build", "toolchain.openvino"], {"build"}),
        (["build", "needs.gpu"], {"build", "gpu"}),
        (["compare", "validate"], {"build"}),
        (["compare", "needs.bench"], {"bench"}),
        (["pull"], set()),
    ],
)
def test_tags_say_what_a_node_needs(tags, needs):
    assert find_needs(node(abs, "a", "b", tags=tags)) == needs


def test_a_pipeline_that_needs_nothing_runs_without_a_cluster(monkeypatch):
    monkeypatch.setattr(schedule, "read_plan", lambda: SimpleNamespace(routes=SimpleNamespace(steps=())))
    catalog = DataCatalog({"a": MemoryDataset(-1), "b": MemoryDataset()})
    DaskRunner().run(Pipeline([node(abs, "a", "b", name="pull")]), catalog, _NullPluginManager())
    assert catalog.load("b") == 1


def test_an_address_is_needed(monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    with pytest.raises(HoneError, match="no address is given") as caught, connect(None):
        pass
    assert caught.value.slug == "cluster-unreachable"


def test_a_scheduler_that_is_not_there_is_explained(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    with pytest.raises(HoneError, match="cannot be reached") as caught, connect("tcp://127.0.0.1:1"):
        pass
    assert caught.value.slug == "cluster-unreachable"


@pytest.mark.parametrize(("named", "counted"), [(None, 6), (2, 2)])
def test_threads_are_those_of_the_machine_that_measures(named, counted):
    recipe = read_recipe({"model": {"uri": "models:/a/1"}, "shapes": {"one": {"batch": 1}}, "threads": named})
    catalog = DataCatalog({"params:hone": MemoryDataset(recipe)})
    _count_threads(catalog, SimpleNamespace(cores=6))
    assert catalog.load("params:hone").thread_count == counted
