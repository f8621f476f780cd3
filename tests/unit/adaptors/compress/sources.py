"""Sources of a compressor: small networks with random weights, their exported programs, and rows."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import torch
from hone_compress import layers
from hone_compress.distillation import Schedule
from hone_compress.rows import Data
from torch import nn

SCHEDULE = Schedule(epochs=6, seconds=600.0, patience=100, learning_rate=1e-2, batch=16, seed=0, checkpoint=None)
SIZE = 8
"""The number of inputs of the networks for vectors."""


class Judge:
    """A program's metric: minus the mean distance to the source; or what ``measure`` raises."""

    metric, sign = "closeness", 1.0

    def __init__(self, expected=None, *, error=None):
        self.expected, self.error = expected, error

    def measure(self, outputs):
        if self.error is not None:
            raise self.error
        return -float(abs(next(iter(outputs.values())) - self.expected.numpy()).mean())


class Classifier(nn.Module):
    """Two linear layers from vectors to five scores."""

    def __init__(self, middle=None, *, width=32):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(SIZE, width), middle or nn.ReLU(), nn.Linear(width, 5)

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Attention(nn.Module):
    """A layer of attention with four heads of eight over (batch, 6, 32), and an addition around it."""

    def __init__(self, *, scaled=False):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in "qkvo")
        self.scaled = scaled

    def forward(self, x):
        q, k, v = (layer(x).view(-1, 6, 4, 8).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q * 2.0 if self.scaled else q, k, v)
        return x + self.o(mixed.transpose(1, 2).reshape(-1, 6, 32))


def seed(make, *arguments, **keywords):
    """Return a network with the same random weights each time, in evaluation mode."""
    torch.manual_seed(0)
    return make(*arguments, **keywords).eval()


def draw(*shape):
    """Return the same random numbers each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def export(net, example):
    """Export a network with a free batch size."""
    shapes = ({0: torch.export.Dim("batch", min=2, max=4096)},)
    return torch.export.export(net.eval(), (example,), dynamic_shapes=shapes)


def open_net(net, example):
    """Return a network as a compressor receives it."""
    return layers.open_trainable(export(net, example), (example,))


def make_source(net, example, *, count=64, **options):
    """Return what a compressor is called with."""
    module, rows = open_net(net, example), draw(count, *example.shape[1:])
    return SimpleNamespace(module=module, examples=(example,), options=options, data=make_data(module, rows))


def make_data(source, training, *, search=None, fixed=None, **changes):
    """Return the rows of a training with a source's outputs, or with those of ``changes``."""
    source, search = copy.deepcopy(source), training[:16] if search is None else search
    with torch.no_grad():
        taught, expected = (layers.call_module(source, [rows]) for rows in (training, search))
    known = {
        "training_inputs": (training,),
        "training_outputs": taught,
        "search_inputs": (search,),
        "search_outputs": expected,
        "learned": tuple(range(len(taught))),
        "fixed": fixed,
        "judge": Judge(expected[0]),
        "outputs": tuple(f"y{index}" for index in range(len(taught))),
    }
    return Data(**{**known, **changes})
