from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from kedro.io import DatasetError, Version

from kedro_hone.datasets import RunDataset, StoreDataset


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a folder in it, and the working directory elsewhere."""
    (tmp_path / "shop" / "src").mkdir(parents=True)
    (tmp_path / "shop" / "pyproject.toml").write_text(
        '[tool.kedro]\npackage_name = "shop"\nproject_name = "shop"\nkedro_init_version = "1.7.0"\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path / "shop"


def make_run(folder: Path, **changes) -> RunDataset:
    return RunDataset(**{"filepath": str(folder), "version": Version(None, "one")} | changes)


def test_the_run_knows_its_project_wherever_it_is_loaded(project, monkeypatch):
    dataset = make_run(project / "data" / "runs")
    for directory in (project.parent, project / "src"):
        monkeypatch.chdir(directory)
        run = pickle.loads(pickle.dumps(dataset)).load()  # noqa: S301 - as ParallelRunner does
        assert (run.run_id, run.project, run.folder) == ("one", project, project / "data" / "runs" / "one")


def test_a_run_without_versions_has_no_id(project):
    with pytest.raises(DatasetError, match="versioned: true"):
        make_run(project / "data", version=None).load()


def test_a_relative_folder_is_that_of_the_process_that_made_the_catalog(project, monkeypatch):
    dataset, run = StoreDataset(filepath="store"), make_run(Path("shop/runs"))
    monkeypatch.chdir(project)
    assert dataset.load().root == project.parent / "store"
    assert run.load().folder == project / "runs" / "one"


@pytest.mark.parametrize("make", [make_run, lambda folder: StoreDataset(filepath=str(folder))])
def test_nothing_saves_them(project, make):
    dataset = make(project)
    assert dataset.exists()
    with pytest.raises(DatasetError, match="is not saved"):
        dataset.save({})


def test_a_url_is_a_shared_store_with_a_cache_in_the_project(project, monkeypatch):
    monkeypatch.chdir(project)
    arguments = {"filepath": "memory://datasets/hone", "credentials": {"key": "hush"}, "fs_args": {"endpoint": "e"}}
    dataset = pickle.loads(pickle.dumps(StoreDataset(**arguments)))  # noqa: S301 - as ParallelRunner does
    monkeypatch.chdir(project.parent)
    store = dataset.load()
    store.write_value("v", 1)
    assert store.root == project / "data" / "hone" / "store"
    assert not [*store.root.rglob("v.json")]
    assert StoreDataset(filepath="memory://datasets/hone", cache="other").load().read_value("v") == 1
    assert "hush" not in str(dataset)


@pytest.mark.parametrize("scheme", ["", "file://", "file:", "local://", "local:"])
def test_a_folder_may_be_a_url_too(project, scheme):
    assert StoreDataset(filepath=f"{scheme}{project}/store").load().root == project / "store"


def test_the_password_of_a_url_is_not_shown():
    dataset = StoreDataset(filepath="nonsense://me:s3cr3t@bucket/hone")

    assert dataset._describe() == {"filepath": "nonsense://***@bucket/hone"}
    assert "s3cr3t" not in repr(dataset)
    with pytest.raises(DatasetError) as caught:
        dataset.load()
    assert "s3cr3t" not in str(caught.value)
