"""Files of LiteRT are recognised by their names."""

from __future__ import annotations

import pytest

from kedro_hone.core.errors import HoneError
from kedro_hone.sources.detection import read_flavor

NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize("name", ["model.tflite", "mobilenet.tflite"])
def test_a_file_of_litert(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    flavor = read_flavor(tmp_path, trust=NOTHING)
    assert (flavor.format, flavor.source, flavor.interface) == ("tflite-file", "litert", "onnx")
    assert flavor.files == ((name, "model.tflite"),)


def test_what_is_not_known_is_named_as_its_user_does(tmp_path):
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    for name in ("a.tflite", "b.tflite"):
        (pulled / name).write_bytes(b"x")
    with pytest.raises(HoneError) as refused:
        read_flavor(pulled, trust=NOTHING, uri="models/edge")
    assert refused.value.what == "models/edge holds no model that can be optimized."
    assert "a.tflite, b.tflite" in refused.value.why
    assert "pulled" not in str(refused.value)
