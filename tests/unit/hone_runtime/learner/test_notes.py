from __future__ import annotations

import pytest

from hone_runtime.learner.notes import find_faults

POOLING = {"kind": "Pooling", "path": "1_Pooling", "config": {}, "modes": ["mean"]}


def test_the_modules_of_an_encoder_are_known():
    dense = {"kind": "Dense", "path": "2_Dense", "config": {"in_features": 3}}
    assert list(find_faults({"transformers": {"modules": [POOLING, dense]}})) == []


@pytest.mark.parametrize(
    "change", [{"path": "../2_Dense"}, {"path": "/etc"}, {"path": "2_Dense/.."}, {"kind": "CNN"}, {"more": 1}]
)
def test_a_module_elsewhere_or_of_another_kind_is_a_fault(change):
    (fault,) = find_faults({"transformers": {"modules": [{**POOLING, **change}]}})
    assert "transformers.modules" in fault
