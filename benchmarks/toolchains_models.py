"""A network of the shape of ResNet-50, and a BERT with six layers; run as a program, it writes one with its data.

``python toolchains_models.py NAME PROJECT`` writes ``models/source`` and the splits into a project, in a process of its
own; for ``toolchains.py``. The weights are random, from a seed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

LENGTH, WORDS, SIZE = 128, 1000, 224
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, blocks and stride of each stage (He et al., "Deep Residual Learning", CVPR 2016, table 1: 50 layers)."""


class Bottleneck(nn.Module):
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
        """Return what has ``4 * width`` channels."""
        return torch.relu(self.short(x) + self.body(x))


class ResNet50(nn.Module):
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


def settle(network: nn.Module, rows: torch.Tensor) -> nn.Module:
    """Let each batch normalization see some rows, so that random weights give numbers of a usual size in each layer."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean over all that it sees
            nn.init.constant_(module.weight, 0.5)
    with torch.no_grad():
        network.train()(rows)
    return network.eval()


def write_resnet(source: Path, count: int) -> dict[str, np.ndarray]:
    """Write an exported program with a dynamic batch, and return its rows."""
    rows = torch.randn(count, 3, SIZE, SIZE)
    network = settle(ResNet50(), rows[:8])
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(network, (rows[:2],), dynamic_shapes=dynamic), source / "model.pt2")
    shutil.copyfile(__file__, source.parents[1] / "resnet.py")  # the author's class
    return {"x": rows.numpy()}


def write_bert(source: Path, count: int) -> dict[str, np.ndarray]:
    """Write a folder of Transformers, and return its rows."""
    import transformers as t  # noqa: PLC0415 - slow to import

    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    t.BertForSequenceClassification(t.BertConfig(**sizes, vocab_size=WORDS, num_labels=4)).eval().save_pretrained(
        source
    )
    ids = np.random.default_rng(0).integers(1, WORDS, size=(count, LENGTH))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def main(name: str, project: Path) -> None:
    """Write one model."""
    import costs  # noqa: PLC0415 - ResNet50 is imported from a copy of this file, without its neighbours
    from toolchains import SPLITS  # noqa: PLC0415 - see above

    torch.manual_seed(0)
    source = project / "models" / "source"
    source.mkdir(parents=True, exist_ok=True)
    costs.SPLITS.clear()
    costs.SPLITS.update(SPLITS)
    costs.track(project, {"resnet50": write_resnet, "bert": write_bert}[name](source, sum(SPLITS.values())))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
