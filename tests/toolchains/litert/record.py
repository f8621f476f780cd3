"""Record a small net for scikit-learn's digits as LiteRT has it, in the environment of ``litert_torch``; by hand.

``PYTHON record.py ROWS.npz`` (``x`` and ``y``, those that ``digits_models.py`` trains its net on) writes ``index.json``
and ``model-batch<n>.tflite`` to ``digits/``. Tests of ``litert`` use these, so that they need no environment of two
gigabytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import litert_torch
import numpy as np
import torch
from torch import nn

BATCHES = (1, 5, 64)


def main(digits: Path, folder: Path) -> None:
    torch.manual_seed(0)
    with np.load(digits) as archive:
        x, y = torch.from_numpy(archive["x"]), torch.from_numpy(archive["y"])
    small = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    net = nn.Sequential(small, nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(40):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    for batch in BATCHES:
        example = (torch.rand(batch, 1, 8, 8),)
        litert_torch.convert(net.eval(), example).export(str(folder / f"model-batch{batch}.tflite"))
    image = {"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8], "key": "args_0"}
    logits = {"name": "logits", "dtype": "float32", "shape": ["batch", 10], "key": "output_0"}
    (folder / "index.json").write_text(json.dumps({"inputs": [image], "outputs": [logits]}, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "digits")
