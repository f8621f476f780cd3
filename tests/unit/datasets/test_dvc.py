"""How a catalog entry names its data, without any repository."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from kedro.io import DatasetError

from hone_runtime.errors import HoneError
from kedro_hone.datasets import DVCDataset
from kedro_hone.datasets.errors import DataError


@pytest.mark.parametrize("folder", [".", "notebooks/deep", "../elsewhere"])
def test_the_path_counts_from_the_repository_also_after_kedro_made_it_absolute(tmp_path, monkeypatch, folder):
    (tmp_path / "pyproject.toml").write_text("[tool.kedro]\n")
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    dataset = DVCDataset(path=f"{tmp_path}/data/gate.npz", repo="data/demo")
    assert dataset._describe() == {"path": "data/gate.npz", "repo": "data/demo", "rev": "HEAD"}
    assert not dataset.exists()


@pytest.mark.parametrize("path", ["/elsewhere/gate.npz", "../gate.npz"])
def test_a_path_out_of_the_repository(path):
    with pytest.raises(HoneError) as caught:
        DVCDataset(path=path)
    assert caught.value.slug == "data-not-tracked"


def test_dvc_is_imported_by_what_needs_it_only():
    code = "import sys, kedro_hone.datasets; sys.exit(any(name.partition('.')[0] == 'dvc' for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_an_error_about_data_is_one_of_kedro_and_crosses_processes():
    error = DataError("data-modified", "It was changed.", why="Somebody wrote it:\n  twice.", hint="Commit it.")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(again, DataError)
    assert isinstance(again, HoneError)
    assert isinstance(again, DatasetError)
    assert str(again) == str(error)


def test_an_error_about_data_is_read_back_from_the_text_that_kedro_puts_it_into():
    error = DataError("data-modified", "It was changed.", why="Somebody wrote it:\n  twice.", hint="Commit it.")
    found = HoneError.find(DatasetError(f"gate: {error}"))
    assert (found.slug, found.why, found.hint) == (error.slug, error.why, error.hint)
    assert found.what == f"gate: {error.what}"
