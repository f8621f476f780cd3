"""Pickled modules of PyTorch as MLflow writes them: opened where they are trusted, described, run and exported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import make_once

from kedro_hone.adaptors.pytorch import adaptor as module
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

pytestmark = pytest.mark.toolchain

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, rows):
        return torch.relu(self.layer(rows))
"""

SCRIPT = """
import sys
from pathlib import Path

import mlflow
import numpy as np
import torch
from mlflow.models import infer_signature

folder = Path(sys.argv[1])
sys.path.append(str(folder))
from author_net import Net

torch.manual_seed(0)
net, rows = Net().eval(), np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
told = net(torch.from_numpy(rows)).detach().numpy()
how = {"signature": infer_signature(rows, told), "pip_requirements": [], "serialization_format": "pickle"}
mlflow.pytorch.save_model(net, folder / "with-code", code_paths=[str(folder / "author_net.py")], **how)
mlflow.pytorch.save_model(net, folder / "without-code", **how)
mlflow.pytorch.save_model(torch.nn.Sequential(net.layer, torch.nn.ReLU()), folder / "plain", **how)
torch.save(net.state_dict(), folder / "state.pth")
np.savez(folder / "told.npz", rows=rows, told=told)
"""


@pytest.fixture(scope="session")
def pickles(shared) -> Path:
    def make(folder: Path) -> None:
        (folder / "author_net.py").write_text(NET)
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return make_once(shared / "pickles", make)


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


@pytest.fixture
def seal(pickles, tmp_path):
    """Return a function that writes a pickle as the source that it becomes, with the tensors of its signature."""

    def seal(name: str):
        flavor = read_flavor(pickles / name, trust=frozenset({"pickle"}))
        write_files(flavor, pickles / name, tmp_path / name)
        specs = {
            side: [spec.model_dump(mode="json") for spec in getattr(flavor, side)] for side in ("inputs", "outputs")
        }
        return tmp_path / name, specs

    return seal


@pytest.mark.parametrize("name", ["with-code", "plain"])
def test_a_trusted_pickle_runs_and_is_exported(bench, seal, pickles, name):
    folder, stated = seal(name)
    described, _ = bench.call("describe", folder, "pytorch-module", described=stated, trust=["pickle"])
    assert [spec["shape"] for spec in described["inputs"]] == [["batch", 4]]
    with np.load(pickles / "told.npz") as file:
        rows, told = file["rows"], file["told"]
    (input_name,), (output_name,) = ([spec["name"] for spec in described[side]] for side in ("inputs", "outputs"))
    feeds = [{input_name: rows[:size]} for size in (1, 2, 9)]
    job = {"described": described, "trust": ["pickle"]}
    _, exported = bench.transform("pytorch.export", folder, form="pytorch-module", **job)
    for path, form in ((folder, "pytorch-module"), (exported, "pytorch")):
        for found, size in zip(bench.run(path, form, feeds, **job), (1, 2, 9), strict=True):
            np.testing.assert_allclose(found[output_name], told[:size], atol=1e-6)


def test_a_pickle_is_not_opened_without_trust(bench, seal):
    folder, stated = seal("with-code")
    for trust in ([], ["module"]):
        asked = {"described": stated, "trust": trust}
        told, _ = bench.call("describe", folder, "pytorch-module", expect_error=True, **asked)
        assert "trust: [pickle]" in told["raised"]
        notes, _ = bench.transform("pytorch.export", folder, form="pytorch-module", **asked)
        assert "trust: [pickle]" in notes["refused"]


def test_what_a_pickle_lacks_is_said(bench, seal, pickles):
    folder, stated = seal("without-code")
    asked = {"described": stated, "trust": ["pickle"], "expect_error": True}
    told, _ = bench.call("describe", folder, "pytorch-module", **asked)
    assert "author_net" in told["raised"]
    assert "code_paths" in told["raised"]
    (folder / "model.pth").write_bytes((pickles / "state.pth").read_bytes())
    told, _ = bench.call("describe", folder, "pytorch-module", **asked)
    assert "holds a OrderedDict and no module" in told["raised"]
