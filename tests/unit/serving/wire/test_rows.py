from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import Golden, make_golden
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.wire.rows import check_answer, check_rows, check_source, choose_row, keep_outputs

ROWS = np.arange(24, dtype=np.float32).reshape(4, 6)


def run(feeds: dict[str, Any]) -> dict[str, Any]:
    return {"y": feeds["x"] * 2, "label": feeds["x"].astype(np.int64).argmax(1)}


def make(batch: int | str = "batch") -> tuple[Artifact, Golden]:
    artifact = Artifact(
        format="onnx",
        digest="sha256:0",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(batch, 6)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(batch, 6)),),
        runtime="onnxruntime",
    )
    golden = make_golden({"x": ROWS}, run({"x": ROWS}), rows=4, largest_error=0.01, source=artifact, host=read_host())
    assert golden is not None
    return artifact, golden


@pytest.mark.parametrize(("batch", "rows"), [("batch", 1), (1, 1), (2, 2)])
def test_the_measured_request_has_as_few_rows_as_the_model_takes(batch: int | str, rows: int) -> None:
    artifact, golden = make(batch)
    row, sizes = choose_row(golden, artifact)
    assert row.inputs["x"].unpack().tolist() == ROWS[:rows].tolist()
    assert row.outputs["y"].unpack().tolist() == (2 * ROWS[:rows]).tolist()
    assert sizes == ({"batch": 1} if batch == "batch" else {})


def test_right_rows_pass_and_wrong_ones_end_the_comparison() -> None:
    artifact, golden = make()
    check_rows("winner", golden, run, artifact=artifact, host=read_host())
    with pytest.raises(HoneError) as wrong:
        check_rows("winner", golden, lambda _: run({"x": ROWS + 1}), artifact=artifact, host=read_host())
    assert wrong.value.slug == "winner-differs"


def test_a_source_may_differ_as_much_as_its_winner_did_and_in_its_labels() -> None:
    artifact, golden = make()

    def source(feeds: dict[str, Any]) -> dict[str, Any]:
        return {"y": feeds["x"] * 2.03, "label": feeds["x"].astype(np.int64).argmin(1)}

    assert check_source("source", golden, source, artifact=artifact) == ("y",)
    assert check_source("source", golden, run, artifact=artifact) == ("y", "label")
    with pytest.raises(HoneError):
        check_rows("winner", golden, source, artifact=artifact, host=read_host())
    with pytest.raises(HoneError):
        check_source("source", golden, lambda _: run({"x": ROWS * 2}), artifact=artifact)


def test_labels_alone_are_compared_exactly() -> None:
    artifact, golden = make(2)
    labels = keep_outputs(golden, ["label"])

    def other(feeds: dict[str, Any]) -> dict[str, Any]:
        return {"label": feeds["x"].astype(np.int64).argmin(1)}

    assert check_source("source", labels, run, artifact=artifact) == ("label",)
    assert check_source("source", labels, other, artifact=artifact) == ()
    assert check_source("source", labels, lambda feeds: {"y": feeds["x"]}, artifact=artifact) == ()


def test_each_answer_under_load_is_compared() -> None:
    artifact, golden = make()
    row, _ = choose_row(golden, artifact)
    check_answer("winner", row, run({"x": ROWS[:1]}), host=read_host())
    with pytest.raises(HoneError, match="while it was measured"):
        check_answer("winner", row, run({"x": ROWS[1:2]}), host=read_host())
