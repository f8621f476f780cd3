from __future__ import annotations

from dataclasses import replace

import pytest

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Stage

BARE = Host(flags=frozenset(), cores=1, gpu=None, compilers=frozenset(), fingerprint="bare")
FULL = replace(
    BARE, flags=frozenset({"avx512_vnni", "avx512_bf16"}), gpu="a GPU", compilers=frozenset({"c++"}), fingerprint="full"
)

REASONS = {
    Need.GPU: "needs a GPU, and this machine has none",
    Need.AVX512_VNNI: "needs a CPU with avx512_vnni",
    Need.AVX512_BF16: "needs a CPU with avx512_bf16",
    Need.CXX_COMPILER: "needs a C++ compiler (c++ or g++) on the path",
}


@pytest.mark.parametrize("need", Need)
def test_a_need_tells_what_a_machine_lacks(need):
    assert need.find_missing(FULL) is None
    assert need.find_missing(BARE) == REASONS.get(need)
    assert Need(need.value) is need


def test_an_adaptor_names_the_first_of_its_needs_that_is_not_met(tmp_path):
    adaptor = Adaptor(
        name="tool.half",
        version=1,
        toolchain=Toolchain(name="tool", folder=tmp_path),
        stage=Stage.COMPRESS,
        accepts=frozenset({"onnx"}),
        produces="onnx",
        summary="Halves.",
        needs=frozenset(Need),
    )
    assert adaptor.find_missing(FULL) is None
    assert adaptor.find_missing(replace(FULL, gpu=None)) == REASONS[Need.GPU]
    assert adaptor.find_missing(BARE) == REASONS[Need.AVX512_BF16]
    assert replace(adaptor, needs=frozenset()).find_missing(BARE) is None
