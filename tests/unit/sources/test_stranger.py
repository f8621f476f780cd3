"""A stranger adds a source format: one file of a package of its own, from the pull to a sealed artifact."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from toolchains.toy.adaptor import TOOLCHAIN

from hone_runtime.contract import catalogue
from hone_runtime.values.manifest import read_sealed
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.sources.catalogue import describe_baseline

STRANGER = '''
"""Matrices as text: a ``.matrix`` file holds the columns of the weights and the bias."""

from kedro_hone.sources.files import find_only
from kedro_hone.sources.source_format import Flavor, SourceFormat


def detect(pulled):
    path = find_only(pulled.folder, "model.matrix")
    if path is None:
        return None
    return Flavor(
        format="toy-source",
        files=((path.name, "weights.npz"),),
        texts=(("model.json", '{"nap": 1.0}'),),
    )


SOURCE_FORMAT = SourceFormat(
    name="matrix",
    noun="a matrix",
    detect=detect,
    seals=frozenset({"toy-source"}),
    baseline="numpy's matrix product with {threads}",
)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The stranger's installed package: its module, and the metadata that pip writes of its ``pyproject.toml``."""
    site = tmp_path / "site"
    info = site / "fake_matrices-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "fake_matrices.py").write_text(STRANGER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-matrices\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kedro_hone.sources]\nmatrix = fake_matrices:SOURCE_FORMAT\n")
    monkeypatch.syspath_prepend(site)
    catalogue.register(TOOLCHAIN)
    yield site
    catalogue.forget_registrations()
    sys.modules.pop("fake_matrices", None)


def test_it_touches_one_file_and_is_pulled_to_a_sealed_artifact(package, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    touched = [path for path in package.rglob("*") if path.is_file() and ".dist-info" not in str(path)]
    assert len(touched) == 1

    model = tmp_path / "models" / "digits"
    model.mkdir(parents=True)
    with (model / "digits.matrix").open("wb") as stream:
        np.savez(stream, w=np.ones((4, 3), np.float32), b=np.zeros(3, np.float32))
    store = Store(tmp_path / "work" / "store")
    run = RunFolder(root=tmp_path / "work" / "runs", run_id="1", project=tmp_path)
    version, artifact = pull(read_recipe({"model": {"uri": str(model)}, "threads": 2}), store, run)

    assert version.uri == "models/digits"
    assert (artifact.format, artifact.runtime, artifact.metadata["interface"]) == ("toy-source", "toy", "onnx")
    assert [spec.shape for spec in artifact.inputs] == [("batch", 4)]
    assert [spec.shape for spec in artifact.outputs] == [("batch", 3)]
    files = store.locate(artifact)
    assert sorted(path.name for path in files.iterdir()) == ["model.json", "weights.npz"]
    assert json.loads((files / "model.json").read_text()) == {"nap": 1.0}
    assert read_sealed(store.locate(artifact).parent)
    assert describe_baseline(artifact, threads=2) == "numpy's matrix product with 2 threads"
