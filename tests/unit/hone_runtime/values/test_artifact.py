from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import CPU


def make_artifact(**more: str) -> Artifact:
    return Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), **more)


@pytest.mark.parametrize(
    ("text", "written"),
    [("cpu", "cpu"), ("cpu:0", "cpu"), ("cuda:1", "cuda:1"), ("cuda", "cuda:0"), ("cuda:01", "cuda:1")],
)
def test_a_device_is_read_and_written(text, written):
    artifact = make_artifact(device=text)
    assert artifact.device == artifact.manifest()["device"] == written
    assert Artifact.model_validate_json(artifact.model_dump_json()) == artifact


@pytest.mark.parametrize("text", ["", "CUDA:0", "cuda:-1", "cuda:x", "0", "cpu:1", "cuda:0:0", "cuda:\u0661"])
def test_what_names_no_device_is_refused(text):
    with pytest.raises(ValidationError, match="is not a device: write cpu"):
        make_artifact(device=text)
    with pytest.raises(ValueError, match="is not a device"):
        replace(read_catalogue().find_adaptor("onnxruntime.session"), device=text)


def test_an_artifact_computes_on_the_cpu_unless_it_says_otherwise():
    assert make_artifact().device == CPU
