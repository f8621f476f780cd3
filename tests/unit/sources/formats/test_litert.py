"""Files of LiteRT are recognised by their names."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor

NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize("name", ["model.tflite", "mobilenet.tflite"])
def test_a_file_of_litert(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    flavor = read_flavor(tmp_path, trust=NOTHING)
    assert (flavor.format, flavor.source, flavor.interface) == ("tflite-file", "litert", "onnx")
    assert flavor.files == ((name, "model.tflite"),)


def test_several_files(tmp_path):
    for name in ("a.tflite", "b.tflite"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(HoneError, match=r"They are a.tflite, b.tflite.") as refused:
        read_flavor(tmp_path, trust=NOTHING)
    assert refused.value.slug == "model-unsupported"
