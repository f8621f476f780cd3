"""The image that is published with a winner: made before the evidence, and pushed with it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError

import pytest
from container_registry import REGISTRY, fetch, need, run_registry
from packed_versions import SERVER_PACKAGES, make_environment, write_base
from served_winners import make_onnx_winner

from hone_runtime.contract.proof import EVIDENCE_FOLDER, GOLDEN
from hone_runtime.errors import HoneError
from hone_runtime.values.manifest import MANIFEST
from kedro_hone.serving import forms
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import INDEX
from kedro_hone.serving.image.descriptors import MANIFEST as MANIFEST_TYPE

pytestmark = pytest.mark.toolchain


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    environment = make_environment(tmp_path / "venv", SERVER_PACKAGES)
    monkeypatch.setattr(forms, "build_server", lambda _: environment)


@need(REGISTRY)
def test_the_image_has_the_same_digest_with_the_evidence_that_contains_it(home: None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        host = stack.enter_context(run_registry(tmp_path / "registry"))
        winner = make_onnx_winner(tmp_path / "winner", stack=stack)
        files = tmp_path / "files"
        files.mkdir()
        for path in winner.files.iterdir():
            if path.name != MANIFEST:
                (files / path.name).write_bytes(path.read_bytes())
        base = write_base(tmp_path / "base", Blobs(tmp_path / "of-base"))
        place = forms.ImagePlace(push=f"{host}/team/digits:4", base=str(base), project=tmp_path / "project")
        forms.check_place(place)
        golden = winner.download.folder / EVIDENCE_FOLDER / GOLDEN
        placed = stack.enter_context(forms.place_winner(winner.artifact, files, golden, name="digits"))
        (made,) = forms.write_forms(placed, ["image"], tmp_path / "forms", image=place)
        assert made.place == f"{host}/team/digits"
        packed = forms.pack(placed, place, evidence=b'{"verdict": "PASS"}')
        assert packed.manifest.descriptor.digest == made.digest
        forms.push(packed, place)
        with pytest.raises(HTTPError, match="404") as absent:
            fetch(f"http://{host}/v2/team/digits/manifests/4", Accept=MANIFEST_TYPE)
        absent.value.close()
        forms.tag(made.digest, place.push)
        manifests = f"http://{host}/v2/team/digits/manifests"
        content, _ = fetch(f"{manifests}/{made.digest}", Accept=MANIFEST_TYPE)
        assert fetch(f"{manifests}/4", Accept=MANIFEST_TYPE)[0] == content
        index = json.loads(fetch(f"{manifests}/{made.digest.replace(':', '-')}", Accept=INDEX)[0])
        kinds = {one["artifactType"] for one in index["manifests"]}
        assert kinds == {"application/vnd.kedro-hone.evidence.v2+json", "application/vnd.cyclonedx+json"}


@need(REGISTRY)
def test_a_tag_is_written_only_for_an_image_that_is_there(tmp_path: Path) -> None:
    with run_registry(tmp_path / "registry") as host, pytest.raises(HoneError) as refused:
        forms.tag(f"sha256:{'0' * 64}", f"{host}/team/digits:4")
    assert refused.value.slug == "image-push-failed"
    assert "no image" in refused.value.why


def test_a_registry_that_cannot_be_used_is_known_before_a_run(home: None, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", Blobs(tmp_path / "of-base"))
    with pytest.raises(HoneError) as refused:
        forms.check_place(forms.ImagePlace(push="127.0.0.1:9/digits:1", base=str(base), project=tmp_path))
    assert refused.value.slug == "image-push-failed"
    with pytest.raises(HoneError) as refused:
        forms.check_place(forms.ImagePlace(push="127.0.0.1:9/digits:1", base=str(tmp_path), project=tmp_path))
    assert refused.value.slug == "image-base-unfit"
