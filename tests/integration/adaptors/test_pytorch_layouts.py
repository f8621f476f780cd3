"""Exported programs whose example rows lay otherwise in memory than rows do that are fed."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from kedro_hone.adaptors.pytorch import adaptor as module

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.toolchain, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


def make_net(width):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()


class Attending(torch.nn.Module):
    """A product of sequences, as attention has it."""

    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(6, 6)

    def forward(self, x):
        return {"y": (self.query(x) @ x.transpose(1, 2)).softmax(-1), "mean": x.reshape(x.shape[0], -1).mean(1)}


def make_image():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(240, 5)).eval()


LAYOUTS = {
    "frame": lambda: (make_net(8), torch.rand(8, 300).T[:2]),
    "every-other": lambda: (make_net(8), torch.rand(40, 8)[::20]),
    "images": lambda: (make_image(), torch.rand(12, 8, 3, 9).permute(3, 2, 1, 0)[:2]),
    "transposed": lambda: (Attending().eval(), torch.rand(6, 5, 9).permute(2, 1, 0)[:2]),
}
"""Modules, and examples of their rows: the first of a table as pandas keeps it, and other views of larger tensors."""


@pytest.mark.parametrize("case", LAYOUTS)
def test_onnx_is_written_whatever_the_layout_of_the_examples(bench, tmp_path, case):
    net, rows = LAYOUTS[case]()
    assert not rows.is_contiguous()
    folder = tmp_path / "source"
    folder.mkdir()
    with torch.no_grad():
        program = torch.export.export(net, (rows,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, folder / "model.pt2")
    described = bench.describe(folder, "pytorch")
    assert described["inputs"][0]["shape"] == ["batch", *rows.shape[1:]]
    notes, output = bench.transform("pytorch.onnx", folder)
    assert "failed" not in notes
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    for batch in (1, 2, 5):
        fed = torch.rand(batch, *rows.shape[1:])
        with torch.no_grad():
            want = net(fed)
        want = list(want.values()) if isinstance(want, dict) else [want]
        found = session.run(None, {described["inputs"][0]["name"]: fed.numpy()})
        for have, should in zip(found, want, strict=True):
            np.testing.assert_allclose(have, should.numpy(), atol=1e-5)
        (ours,) = bench.run(folder, "pytorch", [{described["inputs"][0]["name"]: fed.numpy()}])
        np.testing.assert_allclose(next(iter(ours.values())), want[0].numpy(), atol=1e-6)
