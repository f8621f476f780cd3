"""Contestants of the benchmarks take turns in processes of their own, and one that cannot be opened is left out."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hone_runtime.worker.imports import load_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.toolchain


def test_two_configurations_take_turns_and_one_that_fails_is_left_out(tmp_path):
    turns = load_file("benchmark_turns", str(BENCHMARKS / "turns.py"), parts=False)
    batch = {"inputs": ("x", TensorProto.FLOAT, ["batch", 3]), "outputs": ("y", TensorProto.FLOAT, ["batch", 3])}
    values = {side: [helper.make_tensor_value_info(*spec)] for side, spec in batch.items()}
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", **values)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    for name in ("two", "gate"):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((2, 3), np.float32))
    common = {"folder": str(tmp_path), "threads": 1, "shapes": {"two": {"batch": 2}}}
    orders = [
        {**common, "name": name, "number": number, "path": str(tmp_path / file)}
        for number, (name, file) in enumerate({"ours": "m.onnx", "theirs": "m.onnx", "broken": "none.onnx"}.items())
    ]

    script = str(BENCHMARKS / "by_hand_child.py")
    times = turns.launch(orders, rounds=2, draw=random.Random(0), script=script)

    assert {name: len(found["two"]) for name, found in times.items()} == {"ours": 2, "theirs": 2}
    rows = turns.compare(turns.collect([times]), "two", winner="ours")
    assert rows["ours"][:3] == (1, 1, 1)
    assert rows["theirs"][1] > 0
    slow, fast = ({"two": [seconds]} for seconds in (2.0, 1.0))
    lost = turns.collect([{"ours": slow}, {"ours": fast, "theirs": slow}])  # theirs failed in the first launch
    assert turns.compare(lost, "two", winner="ours")["theirs"][:3] == (2, 2, 2)
    turn = turns.Turns(orders[0], script=script)
    assert turn.ask("gate") == "saved"
    turn.close()
    np.testing.assert_array_equal(np.load(tmp_path / "0.npy"), np.ones((2, 3)))
