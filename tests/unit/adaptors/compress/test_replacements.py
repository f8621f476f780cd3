"""Activations that take the place of SiLU and GELU."""

from __future__ import annotations

import pytest
import torch
from hone_compress.replacements import replace_layers
from sources import Classifier, draw, make_source, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError


@pytest.mark.parametrize("old", [nn.SiLU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(inplace=True)])
@pytest.mark.parametrize(("by", "new"), [("relu", nn.functional.relu), ("hard-swish", nn.functional.hardswish)])
def test_each_is_replaced_in_a_copy(old, by, new):
    net, x = seed(Classifier, old), draw(5, 8)
    source = make_source(net, draw(3, 8), by=by)
    changed = replace_layers(source)
    torch.testing.assert_close(changed(x)[0], net.last(new(net.first(x))))
    torch.testing.assert_close(source.module(x)[0], net(x))


def test_a_network_without_them_is_refused():
    with pytest.raises(UnsuitedError, match="no SiLU or GELU"):
        replace_layers(make_source(seed(Classifier), draw(3, 8), by="relu"))
