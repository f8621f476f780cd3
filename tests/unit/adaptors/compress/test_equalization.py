"""Ranges of channels that become equal, where that changes no output."""

from __future__ import annotations

import pytest
import torch
from hone_compress.equalization import equalize
from sources import Classifier, Function, draw, export, seed
from torch import fx, nn


class Pictures(nn.Module):
    """A convolution and a norm, another convolution, and a layer over the flattened picture; (batch, 3, 8, 8)."""

    def __init__(self, *, pool=None):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.pool, self.last = nn.Conv2d(6, 4, 3, padding=1), pool or nn.MaxPool2d(2), nn.Linear(64, 5)
        with torch.no_grad():
            self.norm.weight[:2] *= 400
            self.norm.bias[:2] *= 400
            self.second.weight[:, :2] /= 400
            self.second.weight[0] *= 100
            self.second.bias[0] *= 100

    def forward(self, x):
        x = self.second(torch.relu(self.norm(self.first(x))))
        return self.last(self.pool(torch.relu(x)).flatten(1))


LINEAR, FLAT = nn.Linear(8, 8), Function(lambda x: x.flatten(1))
MIXED = {
    "a linear layer over the last axis, flattened": (
        nn.Sequential(LINEAR, nn.ReLU(), FLAT, nn.Linear(192, 5)),
        (3, 3, 8, 8),
    ),
    "a maximum over the channels": (nn.Sequential(LINEAR, nn.MaxPool2d((1, 2)), nn.Linear(4, 5)), (3, 3, 8, 8)),
    "a linear layer before a convolution": (nn.Sequential(LINEAR, nn.Conv2d(8, 4, 1)), (3, 8, 8, 8)),
    "a convolution before a linear layer": (nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), LINEAR), (3, 3, 8, 8)),
    "a norm of the middle axis": (nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 5)), (3, 8, 8)),
    "groups": (nn.Sequential(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1, groups=2)), (3, 4, 8, 8)),
}


@pytest.mark.parametrize("case", MIXED)
def test_other_axes_are_no_channels(case):
    net, shape = MIXED[case]
    graph = open_graph(net.eval(), draw(*shape))
    expected = graph(draw(*shape))[0]
    assert equalize(graph) == 0
    assert torch.equal(graph(draw(*shape))[0], expected)


def open_graph(net, example):
    graph = export(net, example).module(check_guards=False)
    graph.graph.set_codegen(fx.graph.CodeGen())
    graph.recompile()
    return graph


@pytest.mark.parametrize(
    ("net", "shape", "pairs"),
    [
        (Pictures(), (3, 3, 8, 8), 2),
        (Pictures(pool=nn.AvgPool2d(2)), (3, 3, 8, 8), 2),
        (Classifier(), (3, 8), 1),
        (Classifier(nn.Dropout(0.5)), (3, 8), 1),
        (Classifier(nn.SiLU()), (3, 8), 0),
        (Classifier(nn.LayerNorm(32)), (3, 8), 0),
        (Classifier(nn.ReLU6()), (3, 8), 0),
        (Classifier(Function(lambda x: torch.relu(x) + x)), (3, 8), 0),
        (Classifier(Function(lambda x: torch.relu(x.view(-1, 4, 8).transpose(1, 2).flatten(1)))), (3, 8), 0),
    ],
)
def test_pairs_are_equalized_where_no_output_changes(net, shape, pairs):
    net.eval()
    graph, x = open_graph(net, draw(*shape)), draw(5, *shape[1:])
    before, expected = [one.detach().clone() for one in graph.parameters()], graph(x)[0]
    assert equalize(graph) == pairs
    torch.testing.assert_close(graph(x)[0], expected, atol=1e-4, rtol=1e-4)
    changed = any(not torch.equal(a, b) for a, b in zip(before, graph.parameters(), strict=True))
    assert changed is (pairs > 0)


def test_outliers_have_the_range_of_the_others():
    net = seed(Pictures)
    graph = open_graph(net, draw(3, 3, 8, 8))
    equalize(graph)
    parameters = dict(graph.named_parameters())
    for name, most in (("norm.weight", 4), ("second.bias", 40)):
        size = parameters[name].detach().abs()
        assert size.max() / size.median() < most, name
    columns = parameters["second.weight"].detach().abs().amax((0, 2, 3))
    assert columns.max() / columns.min() < 20


def test_a_shared_weight_stays():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(torch.relu(self.layer(x)))

    assert equalize(open_graph(seed(Twice), draw(3, 8))) == 0


def test_a_weight_in_the_memory_of_another_stays():
    net = seed(Classifier)
    graph = open_graph(net, draw(3, 8))
    graph.register_parameter("bare", nn.Parameter(graph.get_parameter("last.weight").data[:, :1]))
    assert equalize(graph) == 0


def test_a_channel_without_weights_stays():
    net = seed(Classifier)
    with torch.no_grad():
        net.first.weight[0], net.first.bias[0], net.last.weight[:, 1] = 0, 0, 0
    graph = open_graph(net, draw(3, 8))
    expected = graph(draw(5, 8))[0]
    equalize(graph)
    assert all(torch.isfinite(one).all() for one in graph.parameters())
    torch.testing.assert_close(graph(draw(5, 8))[0], expected)
