"""Exported programs as modules of ordinary layers: the same results to the last bit, or a refusal."""

from __future__ import annotations

import pytest
import torch
from hone_compress.layers import call_module, count_parameters, find_last, list_layers, open_trainable
from sources import Attention, Classifier, Function, draw, export, open_net, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError


class Convolutions(nn.Module):
    """Every layer that is opened, on (batch, 4, 8, 8)."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, stride=2, padding=1, dilation=1, groups=2)
        self.norm, self.dropout = nn.BatchNorm2d(8), nn.Dropout(0.5)
        self.line, self.line_norm = nn.Conv1d(8, 6, 3, bias=False), nn.BatchNorm1d(6, affine=False)
        self.layer_norm, self.last = nn.LayerNorm(14), nn.Linear(14, 3)

    def forward(self, x):
        x = self.dropout(torch.relu_(self.norm(self.first(x))))
        return self.last(self.layer_norm(self.line_norm(self.line(x.flatten(2)))))


class Embedded(nn.Module):
    """Numbers of words to scores of words, by one matrix."""

    def __init__(self, *, tied):
        super().__init__()
        self.words, self.scores = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        if tied:
            self.scores.weight = self.words.weight

    def forward(self, ids):
        return self.scores(self.words(ids))


class Twice(nn.Module):
    """One layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x):
        return self.last(self.layer(torch.relu(self.layer(x))))


@pytest.mark.filterwarnings("ignore:The tensor attributes")  # of the LSTM, by its export
@pytest.mark.parametrize(
    ("make", "example"),
    [
        (Convolutions, draw(3, 4, 8, 8)),
        (Attention, draw(3, 6, 32)),
        (lambda: Classifier(nn.SiLU()), draw(3, 8)),
        (lambda: Embedded(tied=True), torch.randint(0, 20, (3, 5))),
        (Twice, draw(3, 8)),
        (lambda: nn.Sequential(nn.LSTM(8, 4, batch_first=True), Function(lambda pair: pair[0])), draw(3, 5, 8)),
    ],
    ids=["convolutions", "attention", "silu", "tied", "twice", "lstm"],
)
def test_the_difference_is_0(make, example):
    net = seed(make)
    opened = open_net(net, example)
    again = torch.cat([example, example])
    with torch.no_grad():
        assert torch.equal(call_module(opened, [again])[0], net(again))
    assert count_parameters(opened) == count_parameters(net)


def test_operators_become_layers_with_modes():
    opened = open_net(seed(Convolutions), draw(3, 4, 8, 8))
    kinds = [type(one).__name__ for one in opened.children()]
    assert kinds == ["Conv2d", "BatchNorm2d", "Dropout", "Conv1d", "BatchNorm1d", "LayerNorm", "Linear"]
    x, mean = draw(6, 4, 8, 8), opened.batchnorm2d_batch_norm.running_mean.clone()
    assert torch.equal(opened(x)[0], opened(x)[0])
    opened.train()
    assert not torch.equal(opened(x)[0], opened(x)[0])  # dropout
    assert not torch.equal(opened.batchnorm2d_batch_norm.running_mean, mean)


def test_parameters_are_those_of_the_program():
    program = export(seed(Classifier), draw(3, 8))
    opened = open_trainable(program, (draw(3, 8),))
    own = {one.data_ptr() for one in program.state_dict.values()}
    assert {one.data_ptr() for one in opened.parameters()} == own


@pytest.mark.parametrize(("make", "layers"), [(lambda: Embedded(tied=True), 0), (Twice, 1)])
def test_a_shared_parameter_stays_one(make, layers):
    """As two layers it could be pruned twice."""
    example = torch.randint(0, 20, (3, 5)) if layers == 0 else draw(3, 8)
    opened = open_net(seed(make), example)
    assert len(list_layers(opened)) == layers
    opened(example)[0].sum().backward()
    assert all(one.grad is not None for one in opened.parameters())


def test_separate_matrices_are_separate_layers():
    opened = open_net(seed(Embedded, tied=False), torch.randint(0, 20, (3, 5)))
    assert [type(one).__name__ for one in opened.children()] == ["Embedding", "Linear"]


@pytest.mark.parametrize(
    "overwrite",
    [torch.relu_, lambda x: x.mul_(2.0).add_(1.0), lambda x: torch.sigmoid_(x.clamp_(-1, 1)) + x],
)
def test_operators_that_overwrite_their_input_return_a_new_tensor(overwrite):
    net = seed(Classifier, Function(overwrite))
    opened = open_net(net, draw(3, 8))
    assert not any(
        getattr(node.target, "_schema", None) and node.target._schema.is_mutable for node in opened.graph.nodes
    )
    with torch.no_grad():
        assert torch.equal(opened(draw(5, 8))[0], net(draw(5, 8)))


def overwrite_part(x):
    x[:, 0] = 0
    return x * 2


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (overwrite_part, "aten.fill_.Tensor"),
        (lambda x: x + torch.randn(32), "aten.randn.default"),
    ],
    ids=["a part of a tensor is overwritten", "random numbers"],
)
def test_an_operator_that_cannot_be_trained_is_refused_by_name(function, operator):
    with pytest.raises(UnsuitedError, match=f"computes something else, probably by {operator}"):
        open_net(seed(Classifier, Function(function)), draw(3, 8))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (nn.Sequential(nn.Linear(8, 4), Function(lambda x: x.argmax(1))), "depend on no parameter"),
        (Function(lambda x: x + 1), "depend on no parameter"),
    ],
)
def test_a_network_without_a_gradient_is_refused(net, reason):
    with pytest.raises(UnsuitedError, match=reason):
        open_net(net, draw(3, 8))


def test_layers_before_an_output_are_found():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 2), nn.Linear(8, 3)

        def forward(self, x):
            x = torch.relu(self.body(x))
            return torch.softmax(self.left(x), 1), self.right(x) + x[:, :3]

    opened = open_net(seed(Two), draw(3, 8))
    assert list(list_layers(opened)) == ["linear_linear", "linear_linear_1", "linear_linear_2"]
    assert find_last(opened) == {"linear_linear", "linear_linear_1", "linear_linear_2"}
    plain = open_net(seed(Classifier), draw(3, 8))
    assert find_last(plain) == {"linear_linear_1"}
