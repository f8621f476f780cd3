"""The networks of ``compression.py``: a ResNet, and a student for a classifier of texts.

A copy of this file is in each project that needs it, as its author's: it imports PyTorch only.
"""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):  # type: ignore[misc]  # mypy skips torch
    """Two convolutions with batch normalization, and the input added."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.short: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an output with as many channels as the second convolution."""
        return torch.relu(self.short(x) + self.body(x))


class ResNet(nn.Module):  # type: ignore[misc]  # mypy skips torch
    """ResNet-18 with half of its width or less (He et al., "Deep Residual Learning", CVPR 2016), on grey images."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, channels = list[nn.Module](), width
        for stage in range(4):
            outputs = width << stage
            blocks += [Block(channels, outputs, 2 if stage else 1), Block(outputs, outputs, 1)]
            channels = outputs
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 10) of images (batch, 1, 64, 64)."""
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class Layer(nn.Module):  # type: ignore[misc]  # mypy skips torch
    """A layer of a transformer, with normalization first."""

    def __init__(self, hidden: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.query, self.key, self.value, self.joined = (nn.Linear(hidden, hidden) for _ in range(4))
        self.inner = nn.Sequential(nn.Linear(hidden, inner), nn.ReLU(), nn.Linear(inner, hidden))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the tokens' vectors; ``mask`` is True at tokens that others may attend to."""
        normal = self.before(x)
        query, key, value = (
            layer(normal).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.joined(mixed.transpose(1, 2).flatten(2))
        return x + self.inner(self.after(x))


class Student(nn.Module):  # type: ignore[misc]  # mypy skips torch
    """A small transformer with the inputs and the logits of a BERT classifier; no segments are distinguished."""

    def __init__(
        self,
        *,
        words: int,
        layers: int = 3,
        hidden: int = 64,
        heads: int = 2,
        inner: int = 256,
        positions: int = 16,
        classes: int = 3,
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, hidden), nn.Embedding(positions, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, inner) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, classes)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor,  # noqa: ARG002 - an input of the source
    ) -> torch.Tensor:
        """Return logits (batch, classes) of the mean of the tokens' vectors."""
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        mask = attention_mask.bool()[:, None, None]
        for layer in self.layers:
            x = layer(x, mask)
        weight = attention_mask[..., None].to(x.dtype)
        return self.head((self.last(x) * weight).sum(1) / weight.sum(1))
