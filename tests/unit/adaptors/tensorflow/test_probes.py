"""The rows that a converted net is asked for beyond the calibration data."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.contract.adaptor import Need
from hone_runtime.conversion.agreement import compare
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.tensorflow.adaptor import ADAPTORS, TOOLCHAIN

probes = load_file("hone_probes_of_nets", str(TOOLCHAIN.worker.with_name("probes.py")), parts=False)
DRAW = np.random.default_rng(0)
SPECS = [
    {"name": "ids", "dtype": "int64", "shape": ["batch", "length"]},
    {"name": "size", "dtype": "float32", "shape": ["batch", 3]},
]
FEEDS = {"ids": DRAW.integers(0, 9, (40, 6)), "size": DRAW.normal(size=(40, 3)).astype(np.float32)}
TABLE = DRAW.normal(size=(20, 3)).astype(np.float32)


def source(feeds):
    if (feeds["ids"] >= len(TABLE)).any():
        raise ValueError("no such word")
    return {"score": TABLE[feeds["ids"]].mean(axis=1) + feeds["size"]}


def run(graph):
    def make_probes(agreeing):
        return probes.make_probes(FEEDS, SPECS, agreeing, dynamic=True)

    return compare(source, graph, FEEDS, make_probes, rows=probes.choose(FEEDS), has_steps=False)


def test_an_exact_graph_is_taken():
    found = run(source)
    assert found.problem is None
    assert found.totals["score"].rows > len(probes.choose(FEEDS))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (lambda feeds: source({**feeds, "ids": feeds["ids"] % 9}), "'ids' set to 9, which does not occur"),
        (lambda feeds: source({**feeds, "size": feeds["size"] + (feeds["size"] == 0)}), "'size' set to zeros"),
        (lambda feeds: source(feeds) if len(feeds["ids"]) > 1 else {"score": np.zeros((1, 3))}, "alone"),
        (
            lambda feeds: {"score": source(feeds)["score"] * (1 if feeds["ids"].shape[1] == 6 else 0.5)},
            "cut to length 3",
        ),
    ],
)
def test_what_the_data_do_not_show_is_found(graph, said):
    problem = run(graph).problem
    assert said in problem
    assert "by the source" in problem


def test_a_graph_of_fixed_sizes_is_asked_for_no_others():
    kinds = {probe.kind for probe in probes.make_probes(FEEDS, SPECS, [0, 1], dynamic=False)}
    assert kinds == {"zero", "smallest", "largest", "next", "alone"}


def test_large_rows_are_few():
    assert len(probes.choose({"image": np.zeros((200, 3), np.float32)})) == 32
    assert len(probes.choose({"image": np.zeros((40, 1 << 20), np.uint8)})) == 8
    assert probes.choose({"image": np.zeros((1, 3))}) == [0]


def test_rows_are_cut_and_repeated_to_a_shape():
    fitted = probes.fit(FEEDS, SPECS, [(2, 8), (2, 3)])
    np.testing.assert_array_equal(fitted["ids"][:, :6], FEEDS["ids"])
    np.testing.assert_array_equal(fitted["ids"][:, 6:], FEEDS["ids"][:, :2])
    assert probes.fit(FEEDS, SPECS, [(2, 4), (2, 3)])["ids"].shape == (40, 4)


@pytest.mark.parametrize("rows", [1, 3, 6, 7])
def test_a_model_of_so_many_rows_is_called_in_pieces(rows):
    def call(feeds):
        assert len(feeds["ids"]) == 3
        return {**source(feeds), "loss": np.zeros(())}

    given = {name: array[:rows] for name, array in FEEDS.items()}
    found = probes.call_in_batches(call, 3, ["score"])(given)
    assert found.keys() == {"score"}
    np.testing.assert_array_equal(found["score"], source(given)["score"])


def test_what_is_converted_is_compared_on_the_calibration_data():
    needs = {adaptor.name: Need.CALIBRATION_DATA in adaptor.needs for adaptor in ADAPTORS}
    assert needs == {"tensorflow.onnx": True, "tensorflow.tflite": True, "tensorflow.xla": False}
