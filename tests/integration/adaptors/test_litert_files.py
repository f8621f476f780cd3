"""Files of LiteRT as their authors have them: what is taken, and how many interpreters stay open."""

from __future__ import annotations

from pathlib import Path

import pytest

from hone_runtime.values.artifact import Artifact
from kedro_hone.adaptors.litert import adaptor as module
from kedro_hone.search.comparison.quantization import quantizes_activations

pytestmark = pytest.mark.toolchain

MOVES = ("SPLIT", "CONCATENATION", "PAD", "EXPAND_DIMS", "SQUEEZE", "PACK", "UNPACK")
SCRIPT = Path(__file__).with_name("litert_files.py")


@pytest.fixture(scope="module")
def found(run_there, tmp_path_factory):
    """What the script wrote, in the toolchain's own process."""
    return run_there(module.TOOLCHAIN, SCRIPT, tmp_path_factory.mktemp("files"), wrote="found.json")


def test_as_few_interpreters_stay_open_as_are_used(found):
    assert found["opened"] == [[1], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 2], [4, 5, 2, 6]]
    assert all(found["right"])


@pytest.mark.parametrize(
    ("kind", "said"), [("COMPLEX64", "x is of the type complex64, which no conversion"), ("STRING", "x is text, which")]
)
def test_tensors_that_no_conversion_takes_are_named_by_their_type(found, kind, said):
    assert said in found["refused"][kind]


def test_a_size_that_the_file_does_not_allow_is_refused(found):
    assert "Attempting to resize dimension 1" in found["resized"]


@pytest.mark.parametrize(
    ("kind", "operators", "quantized"),
    [
        ("floats", ["FULLY_CONNECTED"], False),
        ("int8", ["FULLY_CONNECTED of int8"], True),
        ("read", ["DEQUANTIZE", "FULLY_CONNECTED"], False),
        ("moved", sorted(["DEQUANTIZE", "FULLY_CONNECTED", *MOVES]), False),
        ("moved int8", sorted(["FULLY_CONNECTED of int8", *MOVES]), True),
    ],
)
def test_operators_are_listed_and_those_of_int8_are_known(found, kind, operators, quantized):
    source = Artifact(format="", digest="", inputs=(), outputs=(), metadata={"operators": found["linear"][kind]})

    assert found["linear"][kind] == operators
    assert quantizes_activations(source) is quantized
