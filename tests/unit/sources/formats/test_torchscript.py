"""Programs of TorchScript and pickles, which have the same names, are distinguished without being opened."""

from __future__ import annotations

import pytest
import torch
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
NATIVE = frozenset({"native"})


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x)


@pytest.mark.parametrize("name", ["model.pt", "net.pth", "net.ts", "yolo.torchscript"])
@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, torch.ones(1, 3))])
def test_a_program_by_any_name(tmp_path, name, make):
    torch.jit.save(make(Net().eval()), tmp_path / name)
    flavor = read_flavor(tmp_path, trust=NATIVE)
    assert (flavor.format, flavor.source, flavor.interface) == ("torchscript-module", "torchscript", "pytorch")
    assert flavor.files == ((name, "model.pt"),)


def test_what_mlflow_writes_of_a_script(tmp_path):
    (tmp_path / "data").mkdir()
    torch.jit.save(torch.jit.script(Net()), tmp_path / "data" / "model.pth")
    (tmp_path / "data" / "pickle_module_info.txt").write_text("mlflow.pytorch.pickle_module")
    (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": {"pytorch": {"model_data": "data"}}}))
    assert read_flavor(tmp_path, trust=NATIVE).files == (("data/model.pth", "model.pt"),)


@pytest.mark.parametrize("content", [Net(), Net().state_dict()])
def test_a_pickle_stays_one(tmp_path, content):
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(HoneError) as refused:
        read_flavor(tmp_path, trust=NATIVE)
    assert refused.value.slug == "pickle-not-trusted"


def test_a_program_is_code_that_must_be_trusted(tmp_path):
    torch.jit.save(torch.jit.script(Net()), tmp_path / "model.pt")
    with pytest.raises(HoneError) as refused:
        read_flavor(tmp_path, trust=frozenset())
    assert refused.value.slug == "native-not-trusted"
    assert "trust: [native]" in refused.value.hint
