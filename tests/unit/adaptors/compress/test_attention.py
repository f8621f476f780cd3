"""Heads of attention in a module, and the views whose sizes follow their number."""

from __future__ import annotations

import copy

import pytest
import torch
from hone_compress.attention import find_heads
from sources import Attention, Classifier, draw, open_net, seed
from torch import nn


@pytest.mark.parametrize("scaled", [False, True])
def test_queries_keys_and_values_have_their_number_of_heads(scaled):
    net = seed(Attention, scaled=scaled)
    opened, x = open_net(net, draw(3, 6, 32)), draw(5, 6, 32)
    heads = find_heads(opened)
    assert sorted(heads.values()) == [4, 4, 4]
    found = {one.weight.data_ptr() for one in heads}
    assert found == {one.weight.data_ptr() for one in (net.q, net.k, net.v)}
    torch.testing.assert_close(opened(x)[0], net(x))


def test_views_take_any_number_of_heads():
    """Two of four heads are removed by hand, as a pruner does."""
    net = seed(Attention)
    opened, x = open_net(net, draw(3, 6, 32)), draw(5, 6, 32)
    find_heads(opened)
    kept, expected = slice(8, 24), copy.deepcopy(net)
    with torch.no_grad():
        expected.o.weight[:, :8] = 0
        expected.o.weight[:, 24:] = 0
        for layer in opened.children():
            if layer.weight.data_ptr() == net.o.weight.data_ptr():
                layer.weight = nn.Parameter(layer.weight[:, kept])
            else:
                layer.weight, layer.bias = nn.Parameter(layer.weight[kept]), nn.Parameter(layer.bias[kept])
    torch.testing.assert_close(opened(x)[0], expected(x))


def test_a_network_without_attention_has_none():
    opened = open_net(seed(Classifier), draw(3, 8))
    assert find_heads(opened) == {}
