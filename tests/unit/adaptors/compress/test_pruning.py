"""Channels that are removed, and graphs in which that is not possible, with the operator's name."""

from __future__ import annotations

import pytest
import torch
from hone_compress.layers import list_layers
from hone_compress.pruning import prune_channels
from sources import Attention, Classifier, Function, draw, make_source, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError


class AttentionNet(nn.Module):
    """Attention between two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.body, self.last = nn.Linear(8, 32), Attention(), nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.body(self.first(x)))


def test_hidden_widths_become_narrower_and_outputs_stay():
    source = make_source(seed(Classifier, width=64), draw(3, 8), ratio=0.5, round_to=8)
    pruned = prune_channels(source)
    assert [tuple(one.weight.shape) for one in list_layers(pruned).values()] == [(32, 8), (5, 32)]
    assert [tuple(one.weight.shape) for one in list_layers(source.module).values()] == [(64, 8), (5, 64)]


@pytest.mark.parametrize(("width", "left"), [(32, 8), (64, 8), (128, 16), (200, 24), (24, 8)])
def test_at_least_one_step_of_channels_stays(width, left):
    """With 32 channels of which 4 would stay, the layer was not pruned at all."""
    pruned = prune_channels(make_source(seed(Classifier, width=width), draw(3, 8), ratio=0.875, round_to=8))
    assert [tuple(one.weight.shape) for one in list_layers(pruned).values()] == [(left, 8), (5, left)]


@pytest.mark.parametrize(("ratio", "heads"), [(0.6, 1), (0.875, 1), (0.25, 3), (0.5, 2)])
def test_at_least_one_head_stays(ratio, heads):
    pruned = prune_channels(make_source(seed(AttentionNet), draw(3, 6, 8), ratio=ratio, round_to=8))
    assert {one.out_features for one in [*list_layers(pruned).values()][1:4]} == {8 * heads}


def test_the_channels_with_the_largest_weights_stay():
    net = seed(Classifier, width=64)
    with torch.no_grad():
        net.first.weight[::2] *= 1e-3
        net.last.weight[:, ::2] *= 1e-3
    pruned = prune_channels(make_source(net, draw(3, 8), ratio=0.5, round_to=8))
    torch.testing.assert_close(next(iter(list_layers(pruned).values())).weight, net.first.weight[1::2])


def test_of_attention_whole_heads_are_removed():
    pruned = prune_channels(make_source(seed(AttentionNet), draw(3, 6, 8), ratio=0.5, round_to=8))
    widths = [tuple(one.weight.shape) for one in list_layers(pruned).values()]
    assert widths == [(16, 8), (16, 16), (16, 16), (16, 16), (16, 16), (4, 16)]
    attention = next(one for one in pruned.graph.nodes if "scaled_dot" in str(one.target))
    seen = []
    attention.target = lambda q, *_, **__: (seen.append(q.shape), q)[1]
    pruned.recompile()
    pruned(draw(5, 6, 8))
    assert seen == [(5, 2, 6, 8)]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (nn.Linear(8, 5), "no layer whose width does not decide that of an output"),
        (Classifier(width=8), "no layer is wide enough to lose 50% of its channels in steps of 8"),
        (Classifier(Function(lambda x: x.view(-1, 4, 8).cumsum(1).flatten(1))), r"in view \(aten\.view\.default\)"),
        (Classifier(Function(lambda x: x + torch.arange(32.0))), r"in add \(aten\.add\.Tensor\)"),
    ],
    ids=["one layer", "narrow", "a view", "a constant"],
)
def test_what_cannot_be_pruned_is_refused_by_name(net, reason):
    with pytest.raises(UnsuitedError, match=reason):
        prune_channels(make_source(net, draw(3, 8), ratio=0.5, round_to=8))


class Mixer(nn.Module):
    """A block whose first layers take the tokens and whose others take the channels (MLP-Mixer)."""

    def __init__(self, tokens=16, width=64):
        super().__init__()
        self.first, self.last = nn.Linear(12, width), nn.Linear(width, 6)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.tokens = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, width))

    def forward(self, x):
        x = self.first(x)
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        return self.last(x.mean(1))


def test_a_network_whose_axes_change_places_is_refused():
    source = make_source(seed(Mixer), draw(3, 16, 12), ratio=0.5, round_to=8)
    with pytest.raises(UnsuitedError, match=r"cannot find which channels belong together.* \(IndexError"):
        prune_channels(source)
