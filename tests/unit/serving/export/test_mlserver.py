from __future__ import annotations

import json

from winners import make_onnx_winner

from kedro_hone.serving.export.exports import export_winner
from kedro_hone.serving.export.target import Request


def test_the_settings_describe_the_winner(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "mlserver", Request(max_batch=16), tmp_path / "out")
    assert not exported.gap
    assert json.loads((tmp_path / "out" / "model-settings.json").read_text()) == {
        "name": "digits",
        "implementation": "model.HoneModel",
        "platform": "kedro-hone_onnxruntime",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "label", "datatype": "INT64", "shape": [-1]},
        ],
        "parallel_workers": 0,
        "parameters": {"uri": "./winner", "version": "1", "extra": {"verify": None, "trust": []}},
        "max_batch_size": 16,
        "max_batch_time": 0.002,
    }
    assert (tmp_path / "out" / "winner" / "evidence" / "golden.json").is_file()
