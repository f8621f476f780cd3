from __future__ import annotations

import json

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import MANIFEST, Manifest
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.published import LARGEST_MANIFEST


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.xml").write_bytes(b"graph")
    (tmp_path / "model.bin").write_bytes(b"weights")
    metadata = {"interface": "pytorch"}
    unsealed = Artifact(format="openvino-ir", digest="", inputs=(), outputs=(), runtime="openvino", metadata=metadata)
    digest = Manifest.measure(tmp_path, unsealed.manifest()).digest
    write_manifest(tmp_path, unsealed.model_copy(update={"digest": digest}))
    return tmp_path


def read_slug(folder):
    with pytest.raises(HoneError) as caught:
        read_flavor(folder, trust=frozenset())
    return caught.value.slug


def test_a_winner_keeps_its_format_and_its_interface(folder):
    flavor = read_flavor(folder, trust=frozenset())
    assert (flavor.source, flavor.format, flavor.interface) == ("published", "openvino-ir", "pytorch")
    assert sorted(name for _, name in flavor.files) == ["model.bin", "model.xml"]


@pytest.mark.attack(
    what="a published file that was exchanged, taken as a source",
    who="registry",
    stopped_by="every file is compared with its digest",
)
def test_an_altered_file_is_refused(folder):
    (folder / "model.bin").write_bytes(b"WEIGHTS")
    assert read_slug(folder) == "model-corrupt"


def test_an_unknown_interface_is_refused(folder):
    attributes = json.loads((folder / MANIFEST).read_text())["attributes"]
    (folder / MANIFEST).unlink()
    attributes["metadata"]["interface"] = "telepathy"
    Manifest.measure(folder, attributes).write(folder / MANIFEST)
    assert read_slug(folder) == "model-corrupt"


@pytest.mark.attack(what="a manifest of gigabytes", who="registry", stopped_by="the size is bounded before it is read")
def test_a_huge_manifest_is_not_parsed(folder):
    with (folder / MANIFEST).open("a") as stream:
        stream.write(" " * LARGEST_MANIFEST)  # still valid JSON
    assert read_slug(folder) == "model-corrupt"
