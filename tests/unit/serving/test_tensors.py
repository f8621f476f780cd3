from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.tensors import Tensor, describe_tensors


@pytest.mark.parametrize(
    ("dtype", "datatype"),
    [
        ("float32", "FP32"),
        ("float16", "FP16"),
        ("bfloat16", "BF16"),
        ("int64", "INT64"),
        ("uint8", "UINT8"),
        ("bool", "BOOL"),
        ("str", "BYTES"),
        ("object", "BYTES"),
        ("<U7", "BYTES"),
    ],
)
def test_each_type_has_the_protocols_name(dtype: str, datatype: str) -> None:
    (tensor,) = describe_tensors([TensorSpec(name="x", dtype=dtype, shape=("batch", 3))])
    assert tensor == Tensor(name="x", datatype=datatype, shape=(-1, 3))


@pytest.mark.parametrize("dtype", ["complex64", "datetime64", "float8_e4m3fn"])
def test_a_type_that_the_protocol_lacks_is_refused_by_name(dtype: str) -> None:
    with pytest.raises(HoneError, match="spectrum") as refused:
        describe_tensors([TensorSpec(name="spectrum", dtype=dtype, shape=(2,))])
    assert refused.value.slug == "serving-unsupported"
    assert dtype in refused.value.why
