from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from packed_versions import write_version

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import Manifest
from kedro_hone.serving.image.leaks import Private
from kedro_hone.serving.image.modelpack import build_modelpack
from kedro_hone.serving.winner import pull_winner

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "modelpack-config.json").read_text())
NOTHING = Private(secrets={}, places={})


def pack(version: Path, blobs: Blobs, private: Private = NOTHING) -> Manifest:
    with pull_winner(str(version), name="digits") as winner:
        return build_modelpack(winner, blobs, private)


def test_the_configuration_is_valid_and_each_file_is_a_layer(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    packed = pack(write_version(tmp_path / "one", signed=True), blobs)
    document = json.loads(blobs.locate(packed.descriptor.digest).read_bytes())
    assert document["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    config = json.loads(blobs.locate(document["config"]["digest"]).read_bytes())
    jsonschema.validate(config, SCHEMA)
    assert config["modelfs"]["diffIds"] == [one["digest"] for one in document["layers"]]
    files = {one["annotations"]["org.cncf.model.filepath"]: one for one in document["layers"]}
    expected = {
        path.relative_to(tmp_path / "one").as_posix() for path in (tmp_path / "one").rglob("*") if path.is_file()
    }
    assert set(files) == expected
    kinds = {name: one["mediaType"].removeprefix("application/vnd.cncf.model.") for name, one in files.items()}
    assert kinds["artifact/model.onnx"] == "weight.v1.raw"
    assert kinds["artifact/artifact.json"] == kinds["hone-files.json"] == "weight.config.v1.raw"
    assert kinds["evidence/evidence.json"] == "doc.v1.raw"
    for name, one in files.items():
        assert blobs.locate(one["digest"]).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_the_same_version_has_the_same_digest(tmp_path: Path) -> None:
    first = pack(write_version(tmp_path / "one"), Blobs(tmp_path / "a"))
    assert pack(write_version(tmp_path / "two"), Blobs(tmp_path / "b")) == first
    assert pack(write_version(tmp_path / "three", weight=2.0), Blobs(tmp_path / "b")) != first


def test_a_secret_is_refused_here_as_well(tmp_path: Path) -> None:
    version = write_version(tmp_path / "one", note="s3cr3t-value")
    with pytest.raises(HoneError) as refused:
        pack(version, Blobs(tmp_path / "a"), Private(secrets={"TOKEN": "s3cr3t-value"}, places={}))
    assert refused.value.slug == "image-leaks"
