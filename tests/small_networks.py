"""Eight small networks, from one Linear to a vision transformer; each with random inputs for it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

LENGTH, WORDS, WIDTH = 16, 100, 64


class DigitsNet(nn.Module):
    """The demo's convolutional network, by its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.head = nn.Linear(128, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 10)."""
        return self.head(self.body(image))


class Residual(nn.Module):
    """Two convolutions with batch normalization, and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what has the shape of the input."""
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(y)))


class ResNet(nn.Module):
    """A residual network with four blocks of 16 channels, on images (batch, 3, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.blocks, self.head = nn.Sequential(*(Residual(16) for _ in range(4))), nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 10)."""
        return self.head(self.blocks(torch.relu(self.norm(self.stem(image)))).mean((2, 3)))


class Lstm(nn.Module):
    """An LSTM over token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(WORDS, 32), nn.LSTM(32, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 5)."""
        return self.head(self.lstm(self.words(ids))[0][:, -1])


class Encoder(nn.Module):
    """PyTorch's TransformerEncoder over token ids, as BERT has it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) / 50)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 5)."""
        return self.head(self.encoder(self.words(ids) + self.places).mean(1))


class Block(nn.Module):
    """A transformer block that normalizes first."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.norm, self.heads, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what has the shape of the input."""
        batch, length, width = x.shape
        parts = self.heads(self.norm(x)).split(width, 2)
        q, k, v = (part.view(batch, length, 4, width // 4).transpose(1, 2) for part in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(x)


class Gpt(nn.Module):
    """Two causal blocks over token ids; the last layer shares its weight with the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.Sequential(*(Block(causal=True) for _ in range(2))), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, length, words)."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Vit(nn.Module):
    """A vision transformer with four blocks, on images (batch, 3, 32, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 17, WIDTH) / 50)
        self.blocks, self.norm = nn.Sequential(*(Block(causal=False) for _ in range(4))), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 10)."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(image.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def make_mlp() -> nn.Module:
    """Return three layers on 64 numbers."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def draw_ids(batch: int) -> torch.Tensor:
    """Return token ids (batch, length)."""
    return torch.randint(0, WORDS, (batch, LENGTH))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor]]] = {
    "Linear(8, 4)": (lambda: nn.Linear(8, 4), lambda batch: torch.rand(batch, 8)),
    "MLP": (make_mlp, lambda batch: torch.rand(batch, 64)),
    "DigitsNet": (DigitsNet, lambda batch: torch.rand(batch, 1, 8, 8)),
    "ResNet": (ResNet, lambda batch: torch.rand(batch, 3, 16, 16)),
    "LSTM": (Lstm, draw_ids),
    "TransformerEncoder": (Encoder, draw_ids),
    "GPT": (Gpt, draw_ids),
    "ViT": (Vit, lambda batch: torch.rand(batch, 3, 32, 32)),
}
"""By name: what makes the network, and what draws inputs for a batch size."""
