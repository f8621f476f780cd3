"""Two thinner layers in the place of one: exact at the full rank, and only where they are cheaper."""

from __future__ import annotations

import pytest
import torch
from hone_compress.factorization import Factorized, factorize, factorize_layer, find_full_rank, find_reason
from sources import Classifier, draw, make_source, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

CASES = {
    "wide": (nn.Linear(12, 20), (3, 12), 12),
    "without bias": (nn.Linear(20, 12, bias=False), (3, 20), 12),
    "square kernel": (nn.Conv2d(4, 6, 3, padding=1), (2, 4, 9, 8), 12),
    "strides": (nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(0, 2), dilation=(1, 2)), (2, 4, 11, 12), 12),
    "convolution without bias": (nn.Conv2d(3, 2, 3, bias=False), (2, 3, 9, 8), 6),
    "double": (nn.Linear(12, 20).double(), (3, 12), 12),
}


@pytest.mark.parametrize("case", CASES)
def test_the_full_rank_is_exact(case):
    layer, shape, full = CASES[case]
    assert find_full_rank(layer) == full
    thin, x = factorize_layer(layer, full), draw(*shape).to(layer.weight.dtype)
    assert (thin[1].bias is None) is (layer.bias is None)
    assert all(one.dtype == layer.weight.dtype for one in thin.parameters())
    torch.testing.assert_close(thin(x), layer(x), atol=1e-5, rtol=1e-5)


def test_a_lower_rank_has_the_smallest_error_of_the_weights():
    layer = seed(nn.Linear, 12, 20)
    thin = factorize_layer(layer, 5)
    error = torch.linalg.matrix_norm((thin[1].weight @ thin[0].weight - layer.weight).detach())
    lost = torch.linalg.svdvals(layer.weight.detach())[5:].norm()
    assert float(error) == pytest.approx(float(lost), rel=1e-4)


def test_half_precision_is_factorized_in_single():
    layer = nn.Linear(12, 20).bfloat16()
    thin = factorize_layer(layer, 12)
    assert {one.dtype for one in thin.parameters()} == {torch.bfloat16}
    torch.testing.assert_close((thin[1].weight @ thin[0].weight).float(), layer.weight.float(), atol=0.02, rtol=0.05)


@pytest.mark.parametrize(
    ("layer", "rank", "reason"),
    [
        (nn.Linear(64, 64), 16, None),
        (nn.Linear(64, 64), 32, "at rank 32 it takes 4,096 multiplications for each place, and 4,096 before"),
        (nn.Linear(64, 64), 64, "the rank 64 is not below its own, 64"),
        (nn.Linear(64, 8), 100, "the rank 100 is not below its own, 8"),
        (nn.Conv2d(32, 32, 3), 32, None),
        (nn.Conv2d(32, 32, 3), 48, "9,216 multiplications for each place, and 9,216 before"),
        (nn.Conv2d(32, 32, 3, groups=2), 8, "in one group"),
        (nn.Conv2d(32, 32, (1, 3)), 8, "a kernel of several rows"),
        (nn.Conv1d(32, 32, 3), 8, "only linear layers and convolutions"),
    ],
)
def test_a_layer_stays_where_nothing_is_saved(layer, rank, reason):
    found = find_reason(layer, rank)
    assert found is None if reason is None else reason in found


def test_wide_layers_of_a_network_are_replaced_and_others_stay():
    source = make_source(seed(Classifier, width=64), draw(3, 8), rank=0.5, round_to=2)
    before = source.module(draw(5, 8))[0]
    changed = factorize(source)
    assert [type(one) for one in (changed.linear_linear, changed.linear_linear_1)] == [Factorized, Factorized]
    assert changed.linear_linear[0].out_features == 4
    assert changed(draw(5, 8))[0].shape == (5, 5)
    torch.testing.assert_close(source.module(draw(5, 8))[0], before)  # only the copy is changed


def test_if_no_layer_becomes_cheaper_each_is_named_with_its_reason():
    source = make_source(seed(Classifier), draw(3, 8), rank=0.5, round_to=8)
    with pytest.raises(UnsuitedError, match="no layer becomes cheaper") as raised:
        factorize(source)
    assert "linear_linear: the rank 8 is not below its own, 8; linear_linear_1: the rank 8" in str(raised.value)
