"""A net that computes with the sizes of its input, as transformers do; its weights are those of a seed."""

from __future__ import annotations

import torch
from torch import nn


class SizesNet(nn.Module):
    """One block of causal attention over token ids: (batch, length) to (batch, 5) and (batch, length, 16)."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
            self.heads, self.out = nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length = ids.shape
        x = self.tokens(ids) + self.places(torch.arange(length))
        q, k, v = self.heads(x).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mask = torch.full((length, length), float("-inf")).triu(1).expand(batch, 4, length, length)
        y = (q @ k.transpose(-1, -2) / 2 + mask).softmax(-1) @ v
        y = torch.cat([y.transpose(1, 2).reshape(batch, length, 16), torch.zeros(batch, 1, 16)], 1)
        return self.out(y.mean(1)), y[:, :length]
