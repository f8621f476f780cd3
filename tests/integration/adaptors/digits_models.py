"""Train the digits net for a few seconds and write it in every source format; run as a script by a fixture."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from digits_net import DigitsNet
from sklearn.datasets import load_digits
from torch import nn

CALIBRATION, SEARCH = 256, 512  # rows; the rest is for training


def train(x: torch.Tensor, y: torch.Tensor) -> DigitsNet:
    model = DigitsNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(12):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


def read_rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images and labels for training, which are in no split."""
    images, labels = load_digits(return_X_y=True)
    rest = np.random.default_rng(0).permutation(len(images))[CALIBRATION + SEARCH :]
    x = (images[rest].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(labels[rest].astype(np.int64))


def main(out: Path) -> None:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x = (images[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    y = labels[order].astype(np.int64)
    np.savez(out / "calibration.npz", image=x[:CALIBRATION])
    np.savez(out / "search.npz", x=x[CALIBRATION : CALIBRATION + SEARCH], y=y[CALIBRATION : CALIBRATION + SEARCH])
    held = CALIBRATION + SEARCH
    model = train(torch.from_numpy(x[held:]), torch.from_numpy(y[held:]))

    for name in ("module", "exported", "onnx", "scripted"):
        (out / name).mkdir()
    torch.jit.save(torch.jit.script(model), out / "scripted" / "model.pt")
    shutil.copy(Path(__file__).with_name("digits_net.py"), out / "module")
    reference = {"class": "digits_net:DigitsNet", "file": "digits_net.py", "kwargs": {}, "state": "model.pt2"}
    (out / "module" / "module.json").write_text(json.dumps(reference, indent=2))

    example = (torch.from_numpy(x[:2]),)
    program = torch.export.export(model, example, dynamic_shapes={"image": {0: torch.export.Dim("batch")}})
    torch.export.save(program, out / "exported" / "model.pt2")
    shutil.copy(out / "exported" / "model.pt2", out / "module")
    torch.onnx.export(
        model,
        example,
        out / "onnx" / "model.onnx",
        dynamic_shapes={"image": {0: "batch"}},
        input_names=["image"],
        output_names=["logits"],
        external_data=False,
        verbose=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
