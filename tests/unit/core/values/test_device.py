from __future__ import annotations

import pytest
from pydantic import ValidationError

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.device import CPU, Device


@pytest.mark.parametrize(
    ("text", "kind", "index", "written"),
    [("cpu", "cpu", 0, "cpu"), ("cuda:1", "cuda", 1, "cuda:1"), ("cuda", "cuda", 0, "cuda:0")],
)
def test_a_device_is_read_and_written(text, kind, index, written):
    device = Device.parse(text)
    assert (device.kind, device.index, str(device)) == (kind, index, written)
    assert Device.model_validate_json(device.model_dump_json()) == device


@pytest.mark.parametrize("text", ["", "CUDA:0", "cuda:-1", "cuda:x", "0", "cpu:1", "cuda:0:0"])
def test_what_names_no_device_is_refused(text):
    with pytest.raises(ValidationError):
        Device.parse(text)


def test_an_artifact_computes_on_the_cpu_unless_it_says_otherwise():
    artifact = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=())
    assert artifact.device == CPU
    assert artifact.manifest()["device"] == "cpu"
    gpu = artifact.model_copy(update={"device": Device.parse("cuda:1")})
    assert Artifact.model_validate_json(gpu.model_dump_json()) == gpu
