"""The demo's network, as its author would write it, without kedro-hone."""

from __future__ import annotations

import torch
from torch import nn


class DigitsNet(nn.Module):  # type: ignore[misc]  # mypy skips torch: reading it takes minutes
    """A small convolutional network for 8 by 8 images of digits, of about 230,000 parameters.

    It takes float32 images of the shape (batch, 1, 8, 8), scaled to 0..1, and returns logits of the shape (batch, 10).
    """

    def __init__(self) -> None:
        super().__init__()
        blocks = (*_block(1, 64), *_block(64, 128), nn.MaxPool2d(2), *_block(128, 128), nn.MaxPool2d(2))
        self.features = nn.Sequential(*blocks, nn.Flatten())
        self.classifier = nn.Linear(128 * 2 * 2, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch of images."""
        logits: torch.Tensor = self.classifier(self.features(images))
        return logits


def _block(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
