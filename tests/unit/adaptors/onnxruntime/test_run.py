"""A session of ONNX Runtime calls the library without the checks of its public method, and makes them itself."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hone_onnxruntime.session import load

X = np.arange(6, dtype=np.float32).reshape(3, 2)
MOST = np.array(2, np.float32)


def open_model(folder, text):
    onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
    return load({"input": {"path": str(folder)}, "threads": 1})


@pytest.fixture
def clipped(tmp_path):
    """A model with an input for an operand that the operator may lack."""
    return open_model(
        tmp_path,
        """<ir_version: 9, opset_import: ["": 17]> clip (float[batch, 2] x, float most) => (float[batch, 2] y) {
            y = Clip(x, , most)
        }""",
    )


def test_a_missing_operand_is_no_omitted_one(clipped):
    assert clipped.run({"x": X, "most": MOST})["y"].max() == 2
    with pytest.raises(ValueError, match=r"Required inputs \(\['most'\]\) are missing"):
        clipped.run({"x": X})
    with pytest.raises(ValueError, match=r"Required inputs \(\['most'\]\) are missing"):
        clipped.run({"x": X, "least": MOST})


@pytest.mark.parametrize(
    "feeds",
    [
        {"x": X.astype(np.float64), "most": MOST},
        {"x": X[:, :1], "most": MOST},
        {"x": X, "most": MOST, "least": MOST},
        {"x": None, "most": MOST},
        {},
    ],
    ids=["type", "shape", "unknown", "nothing", "empty"],
)
def test_errors_are_those_of_the_public_method(clipped, feeds):
    with pytest.raises(Exception) as public:  # noqa: PT011 - of any class
        clipped._session.run(None, feeds)
    with pytest.raises(Exception) as own:  # noqa: PT011 - as above
        clipped.run(feeds)
    assert (type(own.value), str(own.value)) == (type(public.value), str(public.value))


def test_outputs_equal_those_of_the_public_method_and_stay(tmp_path):
    session = open_model(
        tmp_path,
        """<ir_version: 9, opset_import: ["": 17]> two (float[batch, 2] x) => (float[batch, 2] y, float[batch, 2] z) {
            y = Exp(x)
            z = Neg(x)
        }""",
    )
    found = session.run({"x": X})
    kept = {name: array.copy() for name, array in found.items()}
    session.run({"x": X + 1})
    assert [*found] == ["y", "z"]
    for array, name, wanted in zip(found.values(), kept, session._session.run(None, {"x": X}), strict=True):
        np.testing.assert_array_equal(array, kept[name])
        np.testing.assert_array_equal(array, wanted)
