"""Write three small networks whose layers have outliers that change no output, with their data.

Run as a script: ``outlier_models.py FOLDER``. In ``FOLDER/transformer``, ``FOLDER/cnn`` and ``FOLDER/residual`` are
``model.onnx`` and the files ``calibration.npz``, ``search.npz`` and ``gate.npz`` of inputs, with ``label`` in the last
two. Three channels of some layers are multiplied by 300, and divided again in the layer after it, so that one scale for
all channels of an activation leaves nothing of the others. The ``cnn`` is trained on scikit-learn's digits. The others
have random weights, and their own answers are the labels, of rows on which they are not undecided.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

FACTOR = 300.0
CHANNELS = slice(0, 3)
EPOCHS = 6
WORDS, LENGTH, KINDS, WIDTH, LAYERS = 64, 16, 4, 64, 4
GUILTY_LAYERS = (1, 3)


class Block(nn.Module):
    """An attention and a feed-forward network, each after a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        rows = hidden.shape[0]
        normed = self.first(hidden)
        query, key, value = (
            layer(normed).reshape(rows, LENGTH, 4, WIDTH // 4).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(query @ key.transpose(2, 3) / (WIDTH // 4) ** 0.5, -1)
        hidden = hidden + self.out((weights @ value).transpose(1, 2).reshape(rows, LENGTH, WIDTH))
        return hidden + self.narrow(torch.relu(self.wide(self.second(hidden))))


class Transformer(nn.Module):
    """Token ids to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, KINDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.blocks(self.words(ids) + self.places)
        return self.head(self.norm(hidden[:, 0]))


class Cnn(nn.Module):
    """Digits to logits."""

    def __init__(self) -> None:
        super().__init__()
        widths, layers = [1, *[16] * 7], []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(image).mean((2, 3)))


class ResidualBlock(nn.Module):
    """Two convolutions, and the input added to their result."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.first, self.first_norm = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.second, self.second_norm = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.passed = nn.Identity()
        if stride > 1:
            self.passed = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(hidden)))
        return torch.relu(self.second_norm(self.second(inner)) + self.passed(hidden))


class Residual(nn.Module):
    """Images of noise to logits."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 32, 32, 64, 64, 128, 128]
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(*(ResidualBlock(*pair) for pair in itertools.pairwise(widths)))
        self.head = nn.Linear(128, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    steps = EPOCHS * -(-len(x) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, steps)
    model.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
    model.eval()


@torch.no_grad()
def add_outliers(first: nn.Module, after: nn.Module) -> None:
    """Multiply channels of a layer's output, and divide the weights that read them."""
    first.weight[CHANNELS] *= FACTOR
    first.bias[CHANNELS] *= FACTOR
    after.weight[:, CHANNELS] /= FACTOR


@torch.no_grad()
def label(model: nn.Module, x: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Balance a model's answers; return the rows with the clearest ones, and these."""
    model.head.bias -= model(x).mean(0)
    logits = model(x)
    first, second = logits.topk(2).values.T
    clear = (first - second).argsort(descending=True)[:count].sort().values
    return x[clear], logits[clear].argmax(1)


def make_digits() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return torch.tensor(images[order].reshape(-1, 1, 8, 8) / 16).float(), torch.tensor(labels[order])


def save(folder: Path, model: nn.Module, name: str, x: torch.Tensor, y: torch.Tensor) -> None:
    """Export a model, and write splits of its data."""
    folder.mkdir(parents=True)
    free = {name: {0: "batch"}, "logits": {0: "batch"}}
    names = {"input_names": [name], "output_names": ["logits"]}
    path = str(folder / "model.onnx")
    torch.onnx.export(model, (x[:2],), path, dynamo=False, opset_version=17, dynamic_axes=free, **names)
    np.savez(folder / "calibration.npz", **{name: x[:128].numpy()})
    middle = 128 + (len(x) - 128) // 2
    for split, rows in (("search", slice(128, middle)), ("gate", slice(middle, None))):
        np.savez(folder / f"{split}.npz", **{name: x[rows].numpy()}, label=y[rows].numpy())


@torch.no_grad()
def write_transformer(folder: Path) -> None:
    model = Transformer().eval()
    for block in model.blocks:  # as in trained networks, blocks add more than they pass on
        for layer in (block.query, block.key, block.out, block.narrow):
            layer.weight *= 5
    words, kinds = label(model, torch.randint(1, WORDS, (3000, LENGTH)), 1200)
    plain = model(words[:256])
    for place in GUILTY_LAYERS:
        add_outliers(model.blocks[place].value, model.blocks[place].out)
    add_outliers(model.blocks[2].wide, model.blocks[2].narrow)
    assert torch.allclose(model(words[:256]), plain, atol=1e-5)
    save(folder, model, "ids", words, kinds)


def write_cnn(folder: Path) -> None:
    images, labels = make_digits()
    model = Cnn()
    train(model, images[:600], labels[:600])
    plain = model(images[:256])
    add_outliers(model.body[10], model.body[12])
    assert torch.allclose(model(images[:256]), plain, atol=1e-4)
    save(folder, model, "image", images[600:], labels[600:])


@torch.no_grad()
def write_residual(folder: Path) -> None:
    model, noise = Residual(), torch.randn(900, 3, 8, 8)
    images = nn.functional.interpolate(noise, scale_factor=4, mode="bilinear") + 0.3 * torch.randn(900, 3, 32, 32)
    model(images)  # the norms' means and variances
    images, labels = label(model.eval(), images, 650)
    plain = model(images)
    for place in (1, 4):
        add_outliers(model.blocks[place].first_norm, model.blocks[place].second)
    assert torch.allclose(model(images), plain, atol=1e-4)
    save(folder, model, "image", images, labels)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    write_transformer(Path(sys.argv[1], "transformer"))
    write_cnn(Path(sys.argv[1], "cnn"))
    write_residual(Path(sys.argv[1], "residual"))
