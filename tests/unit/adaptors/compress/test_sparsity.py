"""Masks of weights: which are chosen, that they are applied, and that a mask that is not is found."""

from __future__ import annotations

import pytest
import torch
from hone_compress import sparsity
from hone_compress.sparsity import Masks, choose_mask, fits
from sources import Classifier, draw, open_net, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

WEIGHT = torch.tensor([[1.0, -9.0, 3.0, 2.0, 8.0, -7.0, 6.0, 5.0]])


@pytest.mark.parametrize(
    ("pattern", "share", "kept"),
    [
        ("unstructured", 0.5, [0, 1, 0, 0, 1, 1, 1, 0]),
        ("unstructured", 0.0, [1] * 8),
        ("unstructured", 1.0, [0] * 8),
        ("block4", 0.5, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("2:4", 0.5, [0, 1, 1, 0, 1, 1, 0, 0]),
        ("2:4", 0.25, [0, 1, 1, 1, 1, 1, 1, 0]),
        ("2:4", 0.9, [0, 1, 1, 0, 1, 1, 0, 0]),  # never more than a half
    ],
)
def test_the_smallest_weights_become_zero(pattern, share, kept):
    assert choose_mask(WEIGHT, pattern, share).int().tolist() == [kept]


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 3), (6, 8, 3, 3)])
@pytest.mark.parametrize(("pattern", "share"), [("unstructured", 0.8), ("block4", 0.75), ("2:4", 0.5)])
def test_groups_are_neighbours_along_the_inputs(shape, pattern, share):
    mask = choose_mask(draw(*shape), pattern, share)
    assert mask.shape == shape
    assert 1 - mask.float().mean() == pytest.approx(share, abs=0.01)
    kept = mask.movedim(1, -1).unflatten(-1, (-1, 4)).sum(-1)
    allowed = {"unstructured": {0, 1, 2, 3, 4}, "block4": {0, 4}, "2:4": {2}}[pattern]
    assert set(kept.flatten().tolist()) <= allowed


def test_equal_weights_are_cut_at_the_share_too():
    assert choose_mask(torch.ones(4, 8), "unstructured", 0.5).sum() == 16
    assert choose_mask(torch.ones(4, 8), "2:4", 0.5).sum() == 16


@pytest.mark.parametrize(("pattern", "fitting"), [("unstructured", True), ("block4", False), ("2:4", False)])
def test_a_layer_of_six_inputs_has_no_groups_of_four(pattern, fitting):
    assert fits(nn.Linear(6, 2), pattern) is fitting


def test_a_network_without_a_layer_that_fits_is_refused():
    net = open_net(seed(nn.Linear, 6, 2), draw(3, 6))
    with pytest.raises(UnsuitedError, match="no layer whose inputs fit the pattern"):
        Masks(pattern="2:4", sparsity=0.5).cover(net)


def cover(share=0.75):
    net = open_net(seed(Classifier), draw(3, 8))
    masks = Masks(pattern="unstructured", sparsity=share)
    masks.cover(net)
    return net, masks


def test_the_share_of_zeros_rises_and_then_stays():
    net, masks = cover()
    found = []
    for step in range(11):
        masks.apply(step / 10)
        found.append(masks.measure())
    assert found == sorted(found)
    assert found[0] == 0
    assert found[6:] == [pytest.approx(0.75, abs=0.01)] * 5
    assert sum(int((one == 0).sum()) for one in net.parameters() if one.dim() > 1) == round(0.75 * 32 * 13)


def test_a_weight_that_an_optimizer_moves_becomes_zero_again():
    net, masks = cover()
    masks.apply(1.0)
    for one in net.parameters():
        one.data += 1
    assert masks.measure() == 0
    masks.apply(1.0)
    assert masks.measure() == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize(("applied", "refused"), [(True, False), (False, True)])
def test_a_mask_that_is_not_applied_is_found(monkeypatch, applied, refused):
    net, job = cover()[0], {"options": {"pattern": "unstructured", "sparsity": 0.75}}

    def train(job, change, *, shrinks, after_step):
        change(type("Source", (), {"module": net}))
        if applied:
            after_step(1.0)
        return {"metadata": {"training": {}}}

    monkeypatch.setattr(sparsity, "compress", train)
    if refused:
        with pytest.raises(UnsuitedError, match=r"ended at a sparsity of 0\.00, before 0\.75") as raised:
            sparsity.sparsify(job)
        assert raised.value.slug == "budget"
    else:
        assert sparsity.sparsify(job)["metadata"]["training"]["sparsity"] == pytest.approx(0.75, abs=0.01)
