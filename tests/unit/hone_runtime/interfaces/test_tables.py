"""Rows as scikit-learn takes them, around a run that gives back what it was given."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from hone_runtime.interfaces.tables import (
    make_predict,
    make_predict_proba,
    make_reading,
    make_rows,
    read_classes,
)
from hone_runtime.interfaces.texts import MISSING
from hone_runtime.values.artifact import Artifact, TensorSpec

TABLE = np.arange(6.0).reshape(3, 2)


def make_artifact(*inputs: TensorSpec, **about) -> Artifact:
    outputs = [TensorSpec(name="variable", dtype="float32", shape=("batch", 1))]
    if about.get("kind") == "classifier":
        dtype = "str" if isinstance(about["classes"][0], str) else "int64"
        outputs = [TensorSpec(name="label", dtype=dtype, shape=("batch",))]
    metadata = {"interface": "sklearn", "sklearn": {"kind": "regressor", **about}}
    return Artifact(format="onnx", digest="", inputs=inputs, outputs=outputs, metadata=metadata)


def make_matrix(dtype: str = "float64", **about) -> Artifact:
    return make_artifact(TensorSpec(name="X", dtype=dtype, shape=("batch", 2)), **about)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "rows", [TABLE, TABLE.tolist(), TABLE.astype(np.float32), TABLE.astype(int), pd.DataFrame(TABLE)], ids=repr
)
def test_rows_of_any_kind_are_cast_to_the_type_of_the_model(rows, dtype):
    feeds = make_reading(make_matrix(dtype))(rows)
    assert feeds["X"].dtype == dtype
    assert feeds["X"].tolist() == TABLE.tolist()


def test_columns_are_found_by_their_names():
    read = make_reading(make_matrix(feature_names_in=["a", "b"]))
    frame = pd.DataFrame({"b": TABLE[:, 1], "more": 0, "a": TABLE[:, 0]})
    assert read(frame)["X"].tolist() == TABLE.tolist()
    with pytest.raises(ValueError, match="the column b is missing; the model takes a, b"):
        read(frame[["a"]])
    with pytest.raises(ValueError, match=r"the model takes \(batch, 2\)"):
        read(TABLE[:, :1])
    with pytest.raises(ValueError, match="the column 1 is missing; the model takes 0, 1"):
        make_reading(make_matrix(feature_names_in=[0, 1]))(pd.DataFrame({0: TABLE[:, 0]}))


def test_text_and_numbers_are_inputs_of_their_own():
    specs = [TensorSpec(name=name, dtype=dtype, shape=("batch", 1)) for name, dtype in (("a", "str"), ("b", "float64"))]
    read = make_reading(make_artifact(*specs, split=True))
    frame = pd.DataFrame({"b": [1, 2], "a": ["x", "yy"]})
    for rows in (frame, dict(frame), [["x", 1], ["yy", 2]], np.array([["x", 1], ["yy", 2]], object)):
        feeds = read(rows)
        assert {name: feed.tolist() for name, feed in feeds.items()} == {"a": [["x"], ["yy"]], "b": [[1.0], [2.0]]}
        assert feeds["b"].dtype == np.float64
    with pytest.raises(TypeError, match="the model takes text"):
        read([[None, 1.0]])
    with pytest.raises(ValueError, match="the column a is missing"):
        read({"b": [1]})
    with pytest.raises(ValueError, match=r"the model takes \(rows, 2\)"):
        read([["x"]])


@pytest.mark.parametrize("rows", [1, 1024, 1025])
def test_few_rows_are_read_as_many(rows):
    specs = [
        TensorSpec(name="text", dtype="str", shape=("batch", 1)),
        TensorSpec(name="whole", dtype="int64", shape=("batch", 1)),
        TensorSpec(name="fraction", dtype="float32", shape=("batch", 1)),
        TensorSpec(name="truth", dtype="bool", shape=("batch", 1)),
    ]
    numbers = np.arange(rows)
    frame = pd.DataFrame(
        {
            "text": pd.Categorical([f"t{number % 3}" for number in numbers]),
            "whole": numbers + 2**53 + 1,  # a float64 would round it
            "fraction": numbers / 3,
            "truth": numbers % 2 == 0,
        }
    )
    feeds = make_reading(make_artifact(*specs, split=True))(frame)
    assert [array.dtype.kind for array in feeds.values()] == ["O", "i", "f", "b"]
    assert {array.shape for array in feeds.values()} == {(rows, 1)}
    assert all(array.flags.c_contiguous for array in feeds.values())
    for name, array in feeds.items():
        assert array.ravel().tolist() == np.asarray(frame[name]).astype(array.dtype).tolist()
    with pytest.raises(TypeError, match=r"text holds .*nan.*; the model takes text"):
        make_reading(make_artifact(*specs, split=True))(frame.assign(text=np.nan))


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (pd.array([1.5, None], "Float64"), "float64"),
        (pd.array([1, None], "Int64"), "float32"),
        (pd.array([1, 2], "Int64"), "int64"),
        (pd.array([True, None], "boolean"), "float32"),
        (pd.array([True, False], "boolean"), "bool"),
        (pd.to_datetime(["2026-01-01", "2026-01-02"]), "float64"),
        (pd.to_timedelta(["1s", "2s"]), "int64"),
        (np.array([2**40, 1]), "int32"),
        (pd.Categorical([3, 4]), "int64"),
        (np.array(["1.5", "2"], object), "float64"),
        (np.array([1.5, np.nan]), "float32"),
        (np.array([2**63, 1], np.uint64), "int64"),
        (np.array([None, 1.0], object), "float64"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(getattr(value, "dtype", value)),
)
def test_few_rows_of_any_column_are_read_as_the_column_alone(column, dtype):
    specs = [TensorSpec(name=name, dtype=kind, shape=("batch", 1)) for name, kind in (("a", dtype), ("b", "str"))]
    read = make_reading(make_artifact(*specs, split=True))
    frame = pd.DataFrame({"a": column, "b": ["x", "y"]})
    many = pd.concat([frame] * 600, ignore_index=True).assign(a=lambda all_: all_["a"].astype(frame["a"].dtype))

    def try_reading(rows):
        try:
            return read(rows)["a"][:2].tolist()
        except (TypeError, ValueError, OverflowError) as error:
            return type(error)

    assert repr(try_reading(frame)) == repr(try_reading(many))


@pytest.mark.parametrize("rows", [2, 1200])
@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([1.0, np.nan], "a holds .*nan.*; the model takes int64"),
        ([1.0, 2.6], "a holds .*2.6.*; the model takes int64"),
        (pd.array([1, None], "Int64"), "a holds .*nan.*; the model takes int64"),
        (pd.to_datetime(["2026-01-01", "2026-01-02"]), "a holds datetime64.*; the model takes int64"),
        (np.array([2**63, 1], np.uint64), "a holds .*9223372036854775808.*; the model takes int64"),
    ],
    ids=["missing", "a fraction", "pandas' own missing", "times", "too large"],
)
def test_what_is_no_whole_number_is_refused(column, said, rows):
    specs = [TensorSpec(name=name, dtype=kind, shape=("batch", 1)) for name, kind in (("a", "int64"), ("b", "str"))]
    frame = pd.concat([pd.DataFrame({"a": column, "b": "x"})] * (rows // 2), ignore_index=True)
    read = make_reading(make_artifact(*specs, split=True))
    for table in (frame, frame[["b", "a"]]):
        with pytest.raises((TypeError, ValueError), match=said):
            read(table)
    whole = pd.DataFrame({"a": [1.0, 2.0], "b": "x"})
    assert read(whole)["a"].tolist() == [[1], [2]]
    with pytest.raises((TypeError, ValueError), match=r"X holds .*; the model takes int64"):
        make_reading(make_matrix("int64"))(np.array([[1.0, np.nan]]))


def test_a_missing_value_of_pandas_in_a_matrix_is_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [0.5, 1.5]})
    found = make_reading(make_matrix(feature_names_in=["a", "b"]))(frame)["X"]
    np.testing.assert_array_equal(found, [[1.0, 0.5], [np.nan, 1.5]])


def test_columns_of_arrow_are_found_by_their_names():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"more": [7, 8], "b": [1.0, 2.0], "a": ["x", "yy"]})
    specs = [TensorSpec(name=name, dtype=dtype, shape=("batch", 1)) for name, dtype in (("a", "str"), ("b", "float64"))]
    feeds = make_reading(make_artifact(*specs, split=True))(table)
    assert {name: feed.tolist() for name, feed in feeds.items()} == {"a": [["x"], ["yy"]], "b": [[1.0], [2.0]]}
    found = make_reading(make_matrix(feature_names_in=["b", "more"]))(table)["X"]
    assert found.tolist() == [[1.0, 7.0], [2.0, 8.0]]


def test_a_text_of_numpy_becomes_python_s_own():
    spec = TensorSpec(name="a", dtype="str", shape=("batch", 1))
    found = make_reading(make_artifact(spec, split=True))({"a": np.array([np.str_("x"), "y"], object)})["a"]
    assert [type(one) for one in found.ravel()] == [str, str]


def test_rows_are_made_as_callers_have_them(monkeypatch):
    specs = [TensorSpec(name=name, dtype=dtype, shape=("batch", 1)) for name, dtype in (("a", "str"), ("b", "float64"))]
    split = make_artifact(*specs, split=True, feature_names_in=["a", "b"])
    feeds = {"a": np.array([["x"], ["yy"]]), "b": np.array([[1.0], [2.0]])}
    rows = make_rows(split, feeds)
    assert rows.to_dict("list") == {"a": ["x", "yy"], "b": [1.0, 2.0]}
    assert {name: array.tolist() for name, array in make_reading(split)(rows).items()} == {
        name: array.tolist() for name, array in feeds.items()
    }
    assert make_rows(make_matrix(), {"X": TABLE}) is TABLE
    named = make_matrix(feature_names_in=["p", "q"])
    assert make_rows(named, {"X": TABLE}).columns.tolist() == ["p", "q"]

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert make_rows(named, {"X": TABLE}) is TABLE
    assert {name: column.tolist() for name, column in make_rows(split, feeds).items()} == {
        "a": ["x", "yy"],
        "b": [1.0, 2.0],
    }


def test_probabilities_are_of_the_classes():
    spec = TensorSpec(name="probabilities", dtype="float32", shape=("batch", 2))
    artifact = make_matrix(**TRUTHS).model_copy(update={"outputs": (spec,)})
    predict_proba = make_predict_proba(lambda feeds: {"probabilities": feeds["X"]}, artifact)
    assert predict_proba(TABLE.tolist()).tolist() == TABLE.tolist()
    with pytest.raises(ValueError, match="the output 'probabilities' of an estimator is missing"):
        make_predict_proba(lambda feeds: feeds, make_matrix(**TRUTHS))


def test_labels_are_of_the_type_of_the_classes():
    about = {"kind": "classifier", "classes": ["no", "yes"], "classes_dtype": "<U3"}
    artifact = make_matrix(**about)
    predict = make_predict(lambda feeds: {"label": np.array(["yes"] * len(feeds["X"]), object)}, artifact)
    assert predict(TABLE).dtype == read_classes(artifact).dtype == np.dtype("<U3")
    truths = make_matrix(**TRUTHS)
    assert make_predict(lambda _: {"label": np.array([1, 0, 1])}, truths)(TABLE).tolist() == [True, False, True]


def test_missing_columns_are_named_as_far_as_that_helps():
    names = [f"c{number}" for number in range(8)]
    artifact = make_artifact(TensorSpec(name="X", dtype="float64", shape=("batch", 8)), feature_names_in=names)
    read = make_reading(artifact)
    with pytest.raises(ValueError, match="the columns c1, c2, c3, c4, c5 and 2 more are missing; the model takes c0, "):
        read(pd.DataFrame({"c0": [1.0]}))


CLASSES = {"kind": "classifier", "classes": ["a", "b"], "classes_dtype": "<U1"}
TRUTHS = {"kind": "classifier", "classes": [False, True], "classes_dtype": "|b1"}


@pytest.mark.parametrize(
    ("about", "outputs", "said"),
    [
        (
            CLASSES,
            {"variable": ("float32", 1)},
            "the output 'label' of an estimator is missing; there are ['variable']",
        ),
        (CLASSES, {}, "the output 'label' of an estimator is missing; there are []"),
        (
            {"kind": "regressor"},
            {"label": ("int64",)},
            "the output 'variable' of an estimator is missing; there are ['label']",
        ),
        (
            CLASSES,
            {"label": ("str",), "probabilities": ("float32", 3)},
            "the output 'probabilities' has 3 columns, where 2 are expected",
        ),
        (
            CLASSES,
            {"label": ("str",), "probabilities": ("float32",)},
            "the output 'probabilities' must be numbers with the rank 2, not float32 ['batch']",
        ),
        (CLASSES, {"label": ("int64",)}, "the output 'label' must be text with the rank 1, not int64 ['batch']"),
        (CLASSES, {"label": ("bfloat16",)}, "the output 'label' must be text with the rank 1, not bfloat16 ['batch']"),
        (TRUTHS, {"label": ("str",)}, "the output 'label' must be whole numbers with the rank 1, not str ['batch']"),
        (TRUTHS, {"label": ("float32",)}, "'label' must be whole numbers with the rank 1, not float32 ['batch']"),
        (TRUTHS, {"label": ("int64", 3)}, "'label' must be whole numbers with the rank 1, not int64 ['batch', 3]"),
        ({"flat": True}, {"variable": ("float32", 5)}, "the output 'variable' has 5 columns, where 1 are expected"),
        (
            {"flat": True},
            {"variable": ("float32",)},
            "'variable' must be numbers with the rank 2, not float32 ['batch']",
        ),
        ({}, {"variable": ("str", 1)}, "'variable' must be numbers with the rank 2, not str ['batch', 1]"),
    ],
)
def test_outputs_that_do_not_fit_the_metadata_are_told_when_a_model_is_opened(about, outputs, said):
    specs = tuple(TensorSpec(name=one, dtype=dtype, shape=("batch", *rest)) for one, (dtype, *rest) in outputs.items())
    artifact = make_matrix(**about).model_copy(update={"outputs": specs})
    with pytest.raises(ValueError, match=re.escape(said)):
        make_predict(lambda feeds: feeds, artifact)


@pytest.mark.parametrize(("flat", "shape"), [(True, (3,)), (False, (3, 1))])
def test_numbers_have_the_shape_of_the_source(flat, shape):
    predict = make_predict(lambda feeds: {"variable": feeds["X"][:, :1]}, make_matrix(flat=flat))
    assert predict(TABLE).shape == shape


@pytest.mark.parametrize("rows", [3, 1500])
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=repr)
def test_a_missing_value_is_taken_where_the_source_takes_it(missing, rows):
    specs = [TensorSpec(name=name, dtype=kind, shape=("batch", 1)) for name, kind in (("a", "float64"), ("b", "str"))]
    frame = pd.concat([pd.DataFrame({"a": [1, missing, 2], "b": ["x", missing, "y"]}, dtype=object)] * (rows // 3))
    feeds = make_reading(make_artifact(*specs, split=True, missing=["b"]))(frame)
    np.testing.assert_array_equal(feeds["a"][:3, 0], [1, np.nan, 2])
    assert feeds["b"][:3, 0].tolist() == ["x", MISSING, "y"]
    with pytest.raises(TypeError, match=r"b holds .*; the model takes text"):
        make_reading(make_artifact(*specs, split=True))(frame)


def test_a_missing_text_is_nan_in_the_rows_that_callers_have():
    specs = [TensorSpec(name=name, dtype="str", shape=("batch", 1)) for name in "ab"]
    about = {"split": True, "feature_names_in": ["a", "b"], "missing": ["b"]}
    feeds = {"a": np.array([["x"], ["y"]]), "b": np.array([["z"], [MISSING]])}
    rows = make_rows(make_artifact(*specs, **about), feeds)
    assert rows["b"].isna().tolist() == [False, True]
