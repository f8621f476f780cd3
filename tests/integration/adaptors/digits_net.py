"""A small convolutional net for scikit-learn's 8x8 digits; copied next to its state as a ``pytorch-module``."""

from __future__ import annotations

import torch
from torch import nn


class DigitsNet(nn.Module):
    """Two convolutions with batch normalization and two linear layers: images to ten logits."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Linear(32 * width, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(image).flatten(1))
