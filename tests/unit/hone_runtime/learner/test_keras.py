"""A winner whose source was a model of Keras is called as one."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from hone_runtime.learner.keras import KerasLearner
from hone_runtime.learner.layers import make_layer_call
from hone_runtime.values.artifact import Artifact, TensorSpec


def make_artifact(inputs="single", outputs="single", *, count=1, shape=("batch", 3), dtype="float32"):
    given = tuple(TensorSpec(name=name, dtype=dtype, shape=shape) for name in ("a", "b")[:count])
    found = tuple(TensorSpec(name=name, dtype="float32", shape=shape) for name in ("sum", "twice")[:count])
    metadata = {"interface": "keras", "keras": {"inputs": inputs, "outputs": outputs}}
    return Artifact(format="onnx", digest="sha256:0", inputs=given, outputs=found, metadata=metadata)


def run(feeds):
    """Return the sum of the inputs, and twice that."""
    total = sum(feeds.values()).astype(np.float32)
    assert all(array.dtype in (np.float32, np.int64) for array in feeds.values())
    return {"sum": total, "twice": 2 * total}


@pytest.fixture
def learner(monkeypatch):
    """Return a function that makes a learner around ``run``."""

    def make(*args, **kwargs):
        artifact = make_artifact(*args, **kwargs)
        made = KerasLearner.__new__(KerasLearner)
        made.artifact, made._call = artifact, make_layer_call(run, artifact)
        return made

    return make


ROWS = np.arange(12, dtype=np.float64).reshape(4, 3)


def test_one_input_and_one_output(learner):
    model = learner()
    for given in (ROWS, ROWS.astype(np.float32), ROWS.tolist(), [ROWS], {"a": ROWS}):
        np.testing.assert_array_equal(model(given), ROWS.astype(np.float32))
    assert model(ROWS, training=False).dtype == np.float32


def test_lists_and_dictionaries(learner):
    found = learner("list", "list", count=2)([ROWS, ROWS])
    assert isinstance(found, list)
    np.testing.assert_array_equal(found[1], 4 * ROWS)
    named = learner("dict", "dict", count=2)({"a": ROWS, "b": ROWS})
    assert [*named] == ["sum", "twice"]
    with pytest.raises(TypeError, match="a dictionary of a, b"):
        learner("dict", "dict", count=2)([ROWS, ROWS])
    with pytest.raises(TypeError, match="a list of a, b"):
        learner("list", "list", count=2)(ROWS)
    with pytest.raises(ValueError, match="takes a, b, and was given a, c"):
        learner("dict", "dict", count=2)({"a": ROWS, "c": ROWS})


def test_an_axis_of_one_is_added_or_dropped_as_keras_does(learner):
    model = learner(shape=("batch", 1))
    assert model(np.ones(4)).shape == (4, 1)
    assert learner(shape=("batch", 3))(np.ones((4, 3, 1))).shape == (4, 3)
    with pytest.raises(ValueError, match="the model takes"):
        learner()(np.ones((4, 2)))


def test_what_only_the_source_can_is_refused(learner):
    with pytest.raises(TypeError, match="training=True"):
        learner()(ROWS, training=True)
    with pytest.raises(TypeError, match="mask"):
        learner()(ROWS, mask=np.ones(4))
    with pytest.raises(TypeError, match="numbers"):
        learner()(np.array([["a", "b", "c"]]))
    with pytest.raises(TypeError, match="callbacks"):
        learner().predict(ROWS, callbacks=[print])


@pytest.mark.parametrize("size", [None, 1, 3, 100])
def test_predict_takes_rows_in_batches(learner, size):
    seen = []
    model = learner()
    call = model._call
    model._call = lambda batch: seen.append(len(batch)) or call(batch)
    np.testing.assert_array_equal(model.predict(ROWS, batch_size=size, verbose=0), ROWS)
    assert seen == {None: [4], 1: [1] * 4, 3: [3, 1], 100: [4]}[size]


def test_predict_keeps_structures(learner):
    found = learner("list", "list", count=2).predict([ROWS, ROWS], batch_size=3)
    np.testing.assert_array_equal(found[1], 4 * ROWS)
    named = learner("dict", "dict", count=2).predict({"a": ROWS, "b": ROWS}, batch_size=3)
    np.testing.assert_array_equal(named["sum"], 2 * ROWS)


def test_predict_takes_batches_of_others(learner):
    batches = [(ROWS[:2], "labels"), (ROWS[2:], "labels")]
    np.testing.assert_array_equal(learner().predict(iter(batches)), ROWS)
    np.testing.assert_array_equal(learner().predict(iter(batches), steps=1), ROWS[:2])
    with pytest.raises(ValueError, match="no rows"):
        learner().predict(iter([]))


def test_tensors_give_tensors(learner, monkeypatch):
    class Tensor:
        __module__ = "tensorflow.python.framework.ops"

        def __init__(self, array):
            self.array, self.shape = array, array.shape

        def numpy(self):
            return self.array

    module = types.SimpleNamespace(convert_to_tensor=Tensor)
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    model = learner()
    assert isinstance(model(Tensor(ROWS)), Tensor)
    assert isinstance(model(ROWS), np.ndarray)
    assert isinstance(model.predict(Tensor(ROWS)), np.ndarray)


def test_an_artifact_that_does_not_say_its_structures():
    with pytest.raises(ValueError, match="structure of inputs"):
        make_layer_call(run, make_artifact("nested"))
    with pytest.raises(ValueError, match="structure of outputs"):
        make_layer_call(run, make_artifact("list", "single", count=2))
