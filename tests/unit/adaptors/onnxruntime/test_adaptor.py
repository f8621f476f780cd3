"""What ONNX Runtime's quantizer leaves to the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host

OPTIONS = read_catalogue().adaptors["onnxruntime.int8-static"].options


@pytest.mark.parametrize(
    ("machine", "flags", "activations", "seven"),
    [
        ("x86_64", {"avx2"}, "uint8", True),
        ("x86_64", {"avx2", "avx512_vnni"}, "uint8", False),
        ("aarch64", {"asimd", "asimddp"}, "int8", False),
    ],
)
def test_activations_are_of_the_type_that_the_processor_multiplies(machine, flags, activations, seven):
    host = replace(read_host(), machine=machine, flags=frozenset(flags))
    decided = OPTIONS().resolve(host)
    assert (decided.activations, decided.reduce_range) == (activations, seven)


def test_a_recipe_may_ask_for_the_other_type():
    host = replace(read_host(), machine="x86_64")
    assert OPTIONS(activations="int8").resolve(host).activations == "int8"
