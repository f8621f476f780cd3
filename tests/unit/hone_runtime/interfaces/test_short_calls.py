"""A single tensor or array takes a short path, and a named one the general path: both have the same result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hone_runtime.interfaces import tensors
from hone_runtime.interfaces.tensors import make_routes, make_tensors_interface
from hone_runtime.learner.interfaces import make_arrays_interface
from hone_runtime.sessions.shapes import ShapedSession
from hone_runtime.values.artifact import Artifact, TensorSpec

torch = pytest.importorskip("torch")

TABLE = torch.arange(12, dtype=torch.float32).reshape(3, 4)
GOOD = {
    "plain": TABLE,
    "one row": TABLE[:1],
    "no rows": TABLE[:0],
    "transposed": torch.ones(4, 3).T,
    "every second column": torch.ones(3, 8)[:, ::2],
    "expanded": torch.ones(1, 4).expand(3, 4),
    "with a gradient": TABLE.clone().requires_grad_(),
    "a parameter": torch.nn.Parameter(TABLE.clone()),
    "of a function with a gradient": torch.nn.Linear(4, 4)(TABLE),
    "conjugate": torch.ones(3, 4, dtype=torch.complex64).conj().real,
}
BAD = {
    "float64": TABLE.double(),
    "int64": TABLE.long(),
    "bfloat16": TABLE.bfloat16(),
    "complex": TABLE.to(torch.complex64),
    "too few columns": TABLE[:, :3],
    "too many dimensions": TABLE[None],
    "a vector": TABLE[0],
    "a scalar": torch.tensor(1.0),
    "on another device": TABLE.to("meta"),
    "negated lazily": torch._neg_view(TABLE),
    "sparse": TABLE.to_sparse(),
    "an array": TABLE.numpy(),
    "a list": TABLE.tolist(),
    "nothing": None,
}
ARRAYS = {
    "plain": TABLE.numpy(),
    "no rows": TABLE.numpy()[:0],
    "in the order of Fortran": np.asfortranarray(TABLE.numpy()),
    "reversed": TABLE.numpy()[::-1],
    "a list": TABLE.tolist(),
    "float64": TABLE.numpy().astype(np.float64),
    "in another byte order": TABLE.numpy().astype(">f4"),
    "too few columns": TABLE.numpy()[:, :3],
    "a vector": TABLE.numpy()[0],
    "text": np.array([["a"] * 4]),
    "objects": TABLE.numpy().astype(object),
    "a tensor": TABLE,
    "nothing": None,
}


def make_artifact(*names, dtype="float32", outputs=("y",)):
    return Artifact(
        format="onnx",
        digest="",
        inputs=tuple(TensorSpec(name=name, dtype=dtype, shape=("batch", 4)) for name in names),
        outputs=tuple(TensorSpec(name=name, dtype=dtype, shape=("batch", 4)) for name in outputs),
    )


class Session:
    """A session that records its feeds, and returns twice the input."""

    def __init__(self):
        self.fed = []

    def run(self, feeds):
        self.fed.append(feeds["x"])
        return {"y": feeds["x"] * 2}


def describe(call):
    """Return a call's outputs, with their type, or its error's class and text."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error), str(error)
    assert not getattr(found, "requires_grad", False)
    return type(found), found.dtype, found.tolist()


@pytest.mark.filterwarnings("ignore:.*(non-leaf|deprecated|Sparse)")
@pytest.mark.parametrize("value", [*GOOD.values(), *BAD.values()], ids=[*GOOD, *BAD])
@pytest.mark.parametrize("again", [False, True])
def test_a_tensor_has_the_same_result_on_both_paths(value, again):
    session = Session()
    call = make_tensors_interface(session.run, make_artifact("x"))
    if again:
        call(TABLE)
    assert describe(lambda: call(value)) == describe(lambda: call(x=value))
    assert all(array.flags.c_contiguous and array.dtype == np.float32 for array in session.fed)


@pytest.mark.parametrize("name", GOOD)
def test_good_tensors_are_served(name):
    call = make_tensors_interface(Session().run, make_artifact("x"))
    assert call(GOOD[name]).tolist() == (GOOD[name] * 2).tolist()


@pytest.mark.parametrize("name", BAD)
def test_bad_tensors_reach_no_session(name):
    session = Session()
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        make_tensors_interface(session.run, make_artifact("x"))(BAD[name])
    assert session.fed == []


@pytest.mark.parametrize("value", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("again", [False, True])
def test_an_array_has_the_same_result_on_both_paths(value, again):
    call = make_arrays_interface(Session().run, make_artifact("x"))
    if again:
        call(TABLE.numpy())
    short, named, mapped = (
        describe(one) for one in (lambda: call(value), lambda: call(x=value), lambda: call({"x": value})["y"])
    )
    assert short == named == mapped


@pytest.mark.parametrize("make", [make_tensors_interface, make_arrays_interface])
@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "x was not given"),
        ((TABLE, TABLE), {}, "the model takes 1 inputs"),
        ((TABLE,), {"x": TABLE}, "x was given twice"),
        ((TABLE,), {"z": TABLE}, "the model has no input z; it takes x"),
    ],
)
def test_wrong_arguments_are_refused(make, args, kwargs, message):
    values = [value if make is make_tensors_interface else value.numpy() for value in args]
    with pytest.raises(TypeError, match=message):
        make(Session().run, make_artifact("x"))(*values, **kwargs)


@pytest.mark.parametrize("make", [make_tensors_interface, make_arrays_interface])
def test_one_value_is_too_few_for_two_inputs(make):
    value = TABLE if make is make_tensors_interface else TABLE.numpy()
    with pytest.raises(TypeError, match="b was not given"):
        make(Session().run, make_artifact("a", "b"))(value)


@pytest.mark.parametrize("given", [{}, {"z": TABLE.numpy()}, {"x": TABLE.numpy(), "z": TABLE.numpy()}], ids=len)
def test_a_dictionary_of_other_names_is_refused(given):
    session = Session()
    with pytest.raises(TypeError, match=r"the model has no input z|x was not given"):
        make_arrays_interface(session.run, make_artifact("x"))(given)
    assert session.fed == []


def test_a_type_that_numpy_lacks_is_left_to_the_general_path():
    call = make_tensors_interface(Session().run, make_artifact("x", dtype="bfloat16"))
    assert describe(lambda: call(TABLE.bfloat16())) == describe(lambda: call(x=TABLE.bfloat16()))
    with pytest.raises(TypeError, match=r"x is torch.float32; the model takes torch.bfloat16"):
        call(TABLE)


def test_several_outputs_are_a_tuple():
    def run(feeds):
        return {"y": feeds["x"] * 2, "z": feeds["x"] * 3}

    found = make_tensors_interface(run, make_artifact("x", outputs=("y", "z")))(TABLE)
    assert [one.tolist() for one in found] == [(TABLE * 2).tolist(), (TABLE * 3).tolist()]


def test_an_output_does_not_change_in_later_calls():
    call = make_tensors_interface(Session().run, make_artifact("x"))
    first = call(TABLE)
    kept, given = first.tolist(), TABLE.tolist()
    second = call(TABLE + 1)
    second.zero_()
    assert first.tolist() == kept
    assert TABLE.tolist() == given
    assert call(TABLE).data_ptr() != first.data_ptr()


def test_an_output_that_is_read_only_is_copied():
    constant = np.ones((3, 4), np.float32)
    constant.flags.writeable = False
    call = make_tensors_interface(lambda _: {"y": constant}, make_artifact("x"))
    call(TABLE).zero_()
    assert call(TABLE).tolist() == constant.tolist()


def test_threads_call_it_at_once():
    call = make_tensors_interface(Session().run, make_artifact("x"))
    given = [torch.full((1 + number % 7, 4), float(number)) for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(call, given)]
    assert [one.tolist() for one in found] == [(one * 2).tolist() for one in given]


def test_a_limited_number_of_shapes_is_cached(monkeypatch):
    monkeypatch.setattr(tensors, "_MOST_SHAPES", 2)
    specs = make_artifact("x").inputs
    routes, add = make_routes(Session().run, specs)
    runs = [add(((rows, 4),)) for rows in range(5)]
    assert len(routes) == 2
    assert [run({"x": TABLE.numpy()})["y"].tolist() for run in runs] == [(TABLE * 2).tolist()] * 5
    with pytest.raises(ValueError, match=r"x has the shape \(2, 5\); the model takes \(batch, 4\)"):
        add(((2, 5),))


def test_a_shape_goes_straight_to_the_session_that_serves_it():
    sessions = {name: Session() for name in ("rest", "inner", "two")}
    part = ShapedSession(sessions["rest"], {((1, 4),): sessions["inner"]}, ["x"])
    shaped = ShapedSession(part, {((2, 4),): sessions["two"]}, ["x"])
    routes, add = make_routes(shaped.run, make_artifact("x").inputs)
    assert add(((1, 4),)) == sessions["inner"].run
    assert add(((2, 4),)) == sessions["two"].run
    assert add(((3, 4),)) == sessions["rest"].run
    assert routes is shaped.routes
    call = make_tensors_interface(shaped.run, make_artifact("x"))
    for rows, served in ((1, "inner"), (2, "two"), (3, "rest")):
        call(TABLE[:rows])
        assert [len(array) for array in sessions[served].fed] == [rows]


def test_another_method_of_a_session_is_called_as_it_is():
    shaped = ShapedSession(Session(), {}, ["x"])

    class Wrapped(ShapedSession):
        def call(self, feeds):
            return {"y": self.run(feeds)["y"] + 1}

    wrapped = Wrapped(shaped, {}, ["x"])
    found = make_tensors_interface(wrapped.call, make_artifact("x"))(TABLE)
    assert found.tolist() == (TABLE * 2 + 1).tolist()
    assert wrapped.routes == {}
