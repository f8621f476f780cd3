"""Which blocks of a network can be left out, and which the outputs need least."""

from __future__ import annotations

import pytest
import torch
from hone_compress.blocks import drop, drop_layers, find_blocks
from sources import Attention, Classifier, draw, make_source, open_net, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError


class Residual(nn.Module):
    """Blocks of two layers with an addition around each; the second block adds almost nothing."""

    def __init__(self, count=3):
        super().__init__()
        self.stem, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in range(count)
        )
        with torch.no_grad():
            self.blocks[1][2].weight.mul_(1e-3)
            self.blocks[1][2].bias.mul_(1e-3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Plain(nn.Module):
    """Layers of one width in a row."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


class Masked(nn.Module):
    """Blocks that all read one mask, which no parameter decides."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        mask = (x > 0).float()
        for layer in self.layers:
            x = x + layer(x) * mask
        return x


class Skipping(nn.Module):
    """The output of the first layer is read again at the end."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        first = self.layers[0](x)
        return torch.cat([self.layers[2](self.layers[1](first)), first], 1)


@pytest.mark.parametrize(
    ("make", "shape", "count"),
    [
        (Residual, (3, 8), 3),
        (Plain, (3, 8), 1),
        (Masked, (3, 8), 2),
        (Attention, (3, 6, 32), 2),
        (Classifier, (3, 8), 0),
    ],
)
def test_blocks_have_one_shape_before_and_after(make, shape, count):
    module = open_net(seed(make), draw(*shape))
    assert len(find_blocks(module)) == count


def test_what_goes_around_a_layer_is_no_end_of_a_block():
    module = open_net(seed(Skipping), draw(3, 8))
    assert all(last not in {"linear_linear_1", "linear_linear_2"} for _, last in find_blocks(module))


def test_without_a_block_its_input_goes_on():
    net = seed(Residual)
    module, x = open_net(net, draw(3, 8)), draw(5, 8)
    for number, block in enumerate(find_blocks(module)):
        rest = nn.ModuleList(one for index, one in enumerate(net.blocks) if index != number)
        kept, net.blocks = net.blocks, rest
        torch.testing.assert_close(drop(module, [block])(x)[0], net(x))
        net.blocks = kept
    torch.testing.assert_close(module(x)[0], net(x))  # it was not changed itself


def test_neighbours_are_left_out_together():
    net = seed(Residual)
    module, x = open_net(net, draw(3, 8)), draw(5, 8)
    blocks = find_blocks(module)
    changed = drop(module, blocks)
    torch.testing.assert_close(changed(x)[0], net.head(net.stem(x)))
    assert len(list(changed.parameters())) == 4


def test_the_block_that_adds_least_is_left_out():
    source = make_source(seed(Residual), draw(3, 8), share=1 / 3)
    x = draw(5, 8)
    torch.testing.assert_close(drop_layers(source)(x)[0], source.module(x)[0], atol=1e-2, rtol=0)


@pytest.mark.parametrize(
    ("make", "share", "reason"),
    [
        (Classifier, 0.5, "no block whose input and output have the same shape"),
        (Residual, 0.1, "3 blocks with the same shape before and after, and 10% are none"),
        (Residual, 0.9, "and 90% are all of them"),
    ],
)
def test_no_block_or_all_of_them_are_refused(make, share, reason):
    with pytest.raises(UnsuitedError, match=reason):
        drop_layers(make_source(seed(make), draw(3, 8), share=share))
