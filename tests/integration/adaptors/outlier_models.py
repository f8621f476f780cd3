"""Write two small networks whose layers have outliers that change no output, with their data.

Run as a script: ``outlier_models.py FOLDER``. In ``FOLDER/transformer`` and ``FOLDER/cnn`` are ``model.onnx`` and the
files ``calibration.npz``, ``search.npz`` and ``gate.npz`` of inputs, with ``label`` in the last two. Three channels of
some layers are multiplied by 300, and divided again in the layer after it, so that one scale for all channels of an
activation leaves nothing of the others. The transformer has random weights, and its own answers are the labels, of rows
on which it is not undecided. The other one is trained on scikit-learn's digits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
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
        for before, after in zip(widths, widths[1:], strict=False):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(image).mean((2, 3)))


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
def make_words(model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Balance a model's answers; return the sentences with the clearest ones, and these."""
    ids = torch.randint(1, WORDS, (3000, LENGTH))
    model.head.bias -= model(ids).mean(0)
    logits = model(ids)
    first, second = logits.topk(2).values.T
    clear = (first - second).argsort(descending=True)[:1200].sort().values
    return ids[clear], logits[clear].argmax(1)


def make_digits() -> tuple[torch.Tensor, torch.Tensor]:
    from sklearn.datasets import load_digits

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


def write(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transformer = Transformer().eval()
    words, kinds = make_words(transformer)
    plain = transformer(words[:256])
    for place in GUILTY_LAYERS:
        add_outliers(transformer.blocks[place].value, transformer.blocks[place].out)
    add_outliers(transformer.blocks[2].wide, transformer.blocks[2].narrow)
    assert torch.allclose(transformer(words[:256]), plain, atol=1e-5)
    save(folder / "transformer", transformer, "ids", words, kinds)
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


def write(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words, kinds = make_words(9000)
    transformer = Transformer()
    train(transformer, words[:8000], kinds[:8000], 12)
    plain = transformer(words[:256])
    for place in GUILTY_LAYERS:
        add_outliers(transformer.blocks[place].value, transformer.blocks[place].out)
    add_outliers(transformer.blocks[2].wide, transformer.blocks[2].narrow)
    print(
        "transformer",
        (transformer(words[:256]) - plain).abs().max().item(),
        (transformer(words[8000:]).argmax(1) == kinds[8000:]).float().mean().item(),
    )
    save(folder / "transformer", transformer, "ids", words, kinds, places=slice(7900, None))
    images, labels = make_digits()
    cnn = Cnn()
    train(cnn, images[:1000], labels[:1000])
    plain = cnn(images[:256])
    add_outliers(cnn.body[10], cnn.body[12])
    assert torch.allclose(cnn(images[:256]), plain, atol=1e-4)
    save(folder / "cnn", cnn, "image", images[600:], labels[600:])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
