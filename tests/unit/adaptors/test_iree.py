"""Which operator an error of IREE's compiler is about; ``tests/integration/adaptors/test_iree.py`` compiles."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.iree import adaptor

IMPORTED = """module {
  %0 = torch.operator "onnx.Gather"(%arg0, %arg1) : (!torch.vtensor, !torch.vtensor) -> !torch.vtensor
  %1 = torch.operator "onnx.MatMul"(%0, %arg2) : (!torch.vtensor, !torch.vtensor) -> !torch.vtensor
  return %1 : !torch.vtensor
}
"""


@pytest.fixture(scope="module")
def worker():
    return load_file("iree_worker", str(adaptor.TOOLCHAIN.worker), parts=False)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("model.mlir:3:8: error: 'func.func' op failed to vectorize", " (in MatMul)"),
        ("model.mlir:2:8: error: expected an integer", " (in Gather)"),
        ("model.mlir:4:3: error: no operator is in this line", ""),
        ("model.mlir:99:1: error: the file has fewer lines", ""),
        ("error: no place is named", ""),
    ],
)
def test_an_error_names_the_operator_of_the_line_that_it_is_about(worker, tmp_path, error, said):
    (tmp_path / "model.mlir").write_text(IMPORTED)
    assert worker._name_operator(error, tmp_path) == said
    assert worker._name_operator(error, None) == ""


def test_a_limit_of_the_stack_that_the_compiler_does_not_take_is_refused_in_the_recipe():
    assert adaptor.CpuOptions(stack_bytes=65_536).stack_bytes == 65_536
    with pytest.raises(ValidationError, match="must be a power of two, such as 524288"):
        adaptor.CpuOptions(stack_bytes=300_000)
