"""Train networks that a compressor meets in the field, on scikit-learn's digits; run as a script by a fixture.

``attention``: an encoder of four patches; ``residual``: convolutions with SiLU and residual blocks; ``outliers``: two
channels of a much larger range; ``fixed``: a graph
that computes with its width; ``layerless``: one whose parameters are in no layer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from digits_models import read_rows
from torch import nn


class Encoder(nn.Module):
    """An encoder of four patches of 4 by 4 pixels, with four layers of attention."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.patches = nn.Linear(16, width)
        self.place = nn.Parameter(torch.randn(4, width) * 0.02)
        self.layers = nn.ModuleList(nn.ModuleDict(self.make_layer(width)) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    @staticmethod
    def make_layer(width: int) -> dict[str, nn.Module]:
        sizes = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}
        linear = {name: nn.Linear(*size) for name, size in sizes.items()}
        norms = {"first": nn.LayerNorm(width), "second": nn.LayerNorm(width)}
        return {**linear, **norms, "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}

    def attend(self, layer: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        split = (rows, length, self.heads, width // self.heads)
        q, k, v = (layer[name](x).view(split).transpose(1, 2) for name in "qkv")
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return layer["o"](mixed.transpose(1, 2).reshape(rows, length, width))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        tiles = image.view(-1, 2, 4, 2, 4).transpose(2, 3).reshape(-1, 4, 16)
        x = self.patches(tiles) + self.place
        for layer in self.layers:
            x = x + self.attend(layer, layer["first"](x))
            x = x + layer["down"](nn.functional.gelu(layer["up"](layer["second"](x))))
        return self.head(x.mean(1))


class Residual(nn.Module):
    """Residual blocks of convolutions with SiLU."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.SiLU()),
                *(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)),
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        for block in self.blocks:
            x = nn.functional.silu(x + block(x))
        return self.head(x.mean((2, 3)))


class Outliers(nn.Module):
    """Convolutions of which two channels have a range 400 times as large as the others, which changes no output."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width)
        self.second, self.head = nn.Conv2d(width, width, 3, padding=1), nn.Linear(width * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(image)))
        x = nn.functional.max_pool2d(torch.relu(self.second(x)), 4)
        return self.head(x.flatten(1))

    def spread(self) -> None:
        """Enlarge two channels, and the weights that they meet by as much in turn."""
        with torch.no_grad():
            self.norm.weight[:2] *= 400
            self.norm.bias[:2] *= 400
            self.second.weight[:, :2] /= 400


class Fixed(nn.Module):
    """A graph that computes with the width of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(64, 32), nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.first(image.flatten(1)).view(-1, 2, 16).sum(1))


class Layerless(nn.Module):
    """Parameters in no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 10) * 0.1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.flatten(1) @ self.weight


NETS = {"attention": Encoder, "residual": Residual, "outliers": Outliers, "fixed": Fixed, "layerless": Layerless}


def main(out: Path) -> None:
    """Write ``KIND/model.pt2`` for each kind."""
    x, y = read_rows()
    for kind, make in NETS.items():
        torch.manual_seed(0)
        net = make()
        optimizer = torch.optim.Adam(net.parameters(), lr=2e-2 if kind in {"fixed", "layerless"} else 2e-3)
        for _ in range(20):
            for rows in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
                optimizer.step()
        if isinstance(net, Outliers):
            net.spread()
        (out / kind).mkdir()
        shapes = {"image": {0: torch.export.Dim("batch")}}
        program = torch.export.export(net.eval(), (x[:3],), dynamic_shapes=shapes)
        torch.export.save(program, out / kind / "model.pt2")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
