from __future__ import annotations

import pytest

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from kedro_hone.nodes import transform as module
from kedro_hone.recipe.prior import Usual
from kedro_hone.search.plan.budget import LEAST_TRAINING
from kedro_hone.search.plan.forecast import Forecast


@pytest.mark.parametrize(("name", "expected"), [("compress.low-rank", LEAST_TRAINING), ("onnxruntime.session", 300.0)])
def test_a_training_is_not_expected_to_take_as_long_as_earlier_ones(monkeypatch, name, expected):
    found = []
    monkeypatch.setattr(module, "transform", lambda *_, expected, **__: found.append(expected))
    adaptor = read_catalogue().find_adaptor(name)
    module.apply_adaptor(
        parent=Artifact(format="onnx", digest="sha256:1", inputs=(), outputs=()),
        context=None,
        reference=None,
        forecast=Forecast(adaptors={name: Usual(seconds=300.0)}),
        adaptor=name,
        options=adaptor.options(),
    )
    assert found == [expected]
