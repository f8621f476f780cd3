from __future__ import annotations

from types import SimpleNamespace

import pytest
from hone_onnxruntime import threads
from hone_onnxruntime.session import load
from hone_onnxruntime.threads import choose_alone, is_alone

INPUTS = [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]
FIXED = [{"batch": 1}, {"batch": 64}]


@pytest.fixture
def opened(monkeypatch):
    """Return what makes sessions whose calls take these seconds, by threads and rows, on a clock of their own."""
    clock = [0.0]
    monkeypatch.setattr(threads, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def make(seconds):
        def open_one(job, shapes):
            took = seconds[job["threads"], shapes["x"][0]]

            def run(feeds):
                assert feeds["x"].shape == shapes["x"]
                clock[0] += took

            return SimpleNamespace(run=run)

        return open_one

    return make


def make_job(count=2, *, noted=None, **spec):
    return {"threads": count, "input": {"inputs": [{**INPUTS[0], **spec}], "metadata": {"single_thread": noted}}}


def test_only_short_calls_that_are_faster_alone_are_computed_alone(opened):
    seconds = {(2, 1): 20e-6, (1, 1): 14e-6, (2, 64): 200e-6, (1, 64): 100e-6}
    assert choose_alone(make_job(), FIXED, opened(seconds)) == [{"batch": 1}]
    assert choose_alone(make_job(), FIXED, opened({**seconds, (1, 1): 19e-6})) == []
    assert choose_alone(make_job(1), FIXED, opened(seconds)) == []


def test_what_cannot_be_opened_or_fed_keeps_its_threads(opened):
    def fail(*_):
        raise RuntimeError("no such shape")

    assert choose_alone(make_job(), FIXED, fail) == []
    assert choose_alone(make_job(dtype="bfloat16"), FIXED, opened({})) == []


@pytest.mark.parametrize(
    ("noted", "shapes", "alone"),
    [
        ([{"batch": 1}], {"x": (1, 2)}, True),
        ([{"batch": 1}], {"x": (64, 2)}, False),
        ([{"batch": 1}], None, False),
        (None, {"x": (1, 2)}, False),
        ("what", {"x": (1, 2)}, False),
        ([7, {"batch": "1"}, {"batch": -1}], {"x": (1, 2)}, False),
    ],
)
def test_a_shape_is_alone_if_the_metadata_list_it(noted, shapes, alone):
    assert is_alone(make_job(noted=noted), shapes) is alone


def test_the_session_of_such_a_shape_has_one_thread(tmp_path):
    import onnx

    text = '<ir_version: 9, opset_import: ["": 17]> twice (float[batch, 2] x) => (float[batch, 2] y) { y = Add(x, x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    noted = {"compiled_shapes": FIXED, "single_thread": [{"batch": 1}]}
    session = load({"input": {"path": str(tmp_path), "inputs": INPUTS, "metadata": noted}, "threads": 2})
    found = {rows: session.find(((rows, 2),))._session.get_session_options() for rows in (1, 64, 7)}
    assert {rows: options.intra_op_num_threads for rows, options in found.items()} == {1: 1, 64: 2, 7: 2}
