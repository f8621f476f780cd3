"""A network with the structure of ResNet-50, and a BERT with six layers; as a script, it writes one with its data.

``python toolchains_models.py NAME PROJECT`` writes ``models/source`` and the splits into a project, in a separate
process; for ``toolchains.py``. The weights are random, from a seed. With ``--onnx`` the source is the same network in
ONNX, and the trained demo's network is available, too.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import torch
from torch import nn

LENGTH, WORDS, SIZE = 128, 1000, 224
SPLITS = {"calibration": 32, "search": 32, "gate": 32, "training": 64}
"""The rows of each split."""
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, blocks and stride of each stage (He et al., "Deep Residual Learning", CVPR 2016, table 1: 50 layers)."""


class Bottleneck(nn.Module):  # type: ignore[misc]  # mypy skips torch
    """Three convolutions with batch normalization, and the input added."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.short: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an output with ``4 * width`` channels."""
        return torch.relu(self.short(x) + self.body(x))


class ResNet50(nn.Module):  # type: ignore[misc]  # mypy skips torch
    """The network of 50 layers, on images (batch, 3, 224, 224)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, channels = list[nn.Module](), 64
        for width, count, first in STAGES:
            for stride in (first, *([1] * (count - 1))):
                blocks.append(Bottleneck(channels, width, stride))
                channels = 4 * width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 1000)."""
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


def initialize_statistics(network: nn.Module, rows: torch.Tensor) -> nn.Module:
    """Fit each batch normalization on some rows, so that random weights give values of a usual size in each layer."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean over all rows
            nn.init.constant_(module.weight, 0.5)
    with torch.no_grad():
        network.train()(rows)
    return network.eval()


def make_resnet(count: int) -> tuple[nn.Module, dict[str, np.ndarray]]:
    """Return the network and its rows."""
    rows = torch.randn(count, 3, SIZE, SIZE)
    return initialize_statistics(ResNet50(), rows[:8]), {"x": rows.numpy()}


def make_bert(count: int) -> tuple[nn.Module, dict[str, np.ndarray]]:
    """Return the network and its rows."""
    import transformers as t  # noqa: PLC0415 - slow to import

    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    network = t.BertForSequenceClassification(t.BertConfig(**sizes, vocab_size=WORDS, num_labels=4))
    ids = np.random.default_rng(0).integers(1, WORDS, size=(count, LENGTH))
    rows = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return network.eval(), rows


def make_cnn(count: int) -> tuple[nn.Module, dict[str, np.ndarray]]:
    """Return the demo's network, trained on the digits that are not in its rows."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - of this one only

    from kedro_hone.pipelines.demo.train import train  # noqa: PLC0415 - imports mlflow

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return train(images[count:], labels[count:]), {"x": images[:count]}


MAKERS = {"cnn": make_cnn, "resnet50": make_resnet, "bert": make_bert}


def write_source(source: Path, network: nn.Module, rows: dict[str, np.ndarray]) -> None:
    """Write a folder of Transformers, or an exported program with a dynamic batch next to its author's class."""
    if hasattr(network, "save_pretrained"):
        network.save_pretrained(source)
        return
    dynamic = ({0: torch.export.Dim("batch")},)
    example = torch.from_numpy(rows["x"][:2])
    torch.export.save(torch.export.export(network, (example,), dynamic_shapes=dynamic), source / "model.pt2")
    shutil.copyfile(__file__, source.parents[1] / "resnet.py")  # the author's class


def write_onnx(source: Path, network: nn.Module, rows: dict[str, np.ndarray]) -> None:
    """Write the network in ONNX, with a dynamic batch and, for texts, a dynamic length."""
    dynamic = {0: torch.export.Dim("batch")}
    if hasattr(network, "config"):
        network.config.return_dict = False
        dynamic[1] = torch.export.Dim("length", min=2, max=network.config.max_position_embeddings)
    torch.onnx.export(
        network,
        tuple(torch.from_numpy(array[:2]) for array in rows.values()),
        source / "model.onnx",
        input_names=list(rows),
        output_names=["logits"],
        dynamic_shapes=tuple(dynamic for _ in rows),
        external_data=False,
        dynamo=True,
        verbose=False,
    )


def write_splits(project: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the rows of each split, and put them under DVC at the paths in the project's catalog."""
    from by_hand_models import track  # noqa: PLC0415 - ResNet50 is imported from a copy of this file, without others

    folder, place = project / "data" / "digits", 0
    (folder / "splits").mkdir(parents=True)
    for split, count in SPLITS.items():
        rows = {name: array[place : place + count] for name, array in arrays.items()}
        np.savez(folder / "splits" / f"{split}.npz", allow_pickle=False, **rows)
        place += count
    track(folder, *(f"{split}.npz" for split in SPLITS), tag="v1")


def main() -> None:
    """Write one model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MAKERS)
    parser.add_argument("project", type=Path)
    parser.add_argument("--onnx", action="store_true")
    given = parser.parse_args()
    torch.manual_seed(0)
    source = given.project / "models" / "source"
    source.mkdir(parents=True, exist_ok=True)
    network, rows = MAKERS[given.name](sum(SPLITS.values()))
    (write_onnx if given.onnx else write_source)(source, network, rows)
    write_splits(given.project, rows)


if __name__ == "__main__":
    main()
