"""What a run that raced was started with is found by a later choice."""

from __future__ import annotations

from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline

from kedro_hone.core.store.runs import RunFolder
from kedro_hone.hooks.runtime import Runtime, RuntimeHooks, read_runtime


def compute(*_):
    return 1


compute.__module__ = "kedro_hone.nodes.race"


def start(root, made, **given):
    run = RunFolder(root=root / "runs", run_id="run", project=root)
    catalog = DataCatalog({"run": MemoryDataset(run, copy_mode="assign")})
    pipeline = Pipeline([Node(compute, ["run", "params:hone"], made, name=made)])
    RuntimeHooks().before_pipeline_run(given, pipeline, catalog)


def test_it_is_that_of_the_last_run_that_raced(tmp_path):
    params = {"hone": {"seed": 7}}
    start(tmp_path, "race", runtime_params=params, env="cheap")
    start(tmp_path, "chosen", runtime_params={"hone": {"choose": "a"}}, env=None)
    assert read_runtime(tmp_path) == Runtime(params=params, env="cheap")
    start(tmp_path, "race", runtime_params=None, env=None)
    assert read_runtime(tmp_path) == Runtime()


def test_nobody_else_reads_it(tmp_path):
    start(tmp_path, "race", runtime_params={"hone": {"model": {"uri": "https://me:word@host/m"}}}, env=None)
    assert (tmp_path / "runtime.json").stat().st_mode & 0o077 == 0


def test_what_cannot_be_read_is_as_if_nothing_was_given(tmp_path):
    assert read_runtime(tmp_path) == Runtime()
    (tmp_path / "runtime.json").write_text("[1]")
    assert read_runtime(tmp_path) == Runtime()
