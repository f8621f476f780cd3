from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from packed_versions import SERVER_PACKAGES, make_environment, write_base, write_version

from hone_runtime.errors import HoneError
from hone_runtime.learner.versions import write_version_files
from hone_runtime.values.digest import digest_file
from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.image.base import fetch_base
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import Descriptor
from kedro_hone.serving.image.leaks import Private, read_private
from kedro_hone.serving.image.packing import Packed, pack_image
from kedro_hone.serving.image.referrers import EVIDENCE_TYPE, Statement
from kedro_hone.serving.winner import pull_winner

NOTHING = Private(secrets={}, places={})


class Bench:
    """Packs versions in a folder of blobs of its own, from one environment and one base."""

    def __init__(self, folder: Path, base: Path, environment: Environment) -> None:
        self.blobs, self._base, self._environment = Blobs(folder), base, environment

    def pack(self, version: Path, private: Private = NOTHING, **options: Any) -> Packed:
        with ExitStack() as stack:
            winner = stack.enter_context(pull_winner(str(version), name="digits"))
            base = fetch_base(str(self._base), self.blobs)
            return pack_image(winner, base, environment=self._environment, blobs=self.blobs, private=private, **options)

    def read(self, descriptor: Descriptor) -> Any:
        return json.loads(self.blobs.locate(descriptor.digest).read_bytes())

    def open_layer(self, descriptor: Descriptor) -> Iterator[tuple[str, bytes]]:
        plain = gzip.decompress(self.blobs.locate(descriptor.digest).read_bytes())
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            for member in archive:
                if (stream := archive.extractfile(member)) is not None:
                    yield member.name, stream.read()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_base(tmp_path / "base", Blobs(tmp_path / "of-base"))


@pytest.fixture
def bench(tmp_path: Path, base: Path) -> Bench:
    return Bench(tmp_path / "blobs", base, make_environment(tmp_path / "venv", SERVER_PACKAGES))


def test_the_same_winner_has_the_same_digest_wherever_it_is_packed(tmp_path: Path, base: Path, bench: Bench) -> None:
    first = bench.pack(write_version(tmp_path / "one"))
    other = Bench(tmp_path / "others", base, make_environment(tmp_path / "elsewhere" / "venv", SERVER_PACKAGES))
    second = other.pack(write_version(tmp_path / "two" / "copy"))
    assert second.manifest.descriptor == first.manifest.descriptor
    assert [one.descriptor for one in second.referrers] == [one.descriptor for one in first.referrers]
    assert bench.pack(tmp_path / "one").manifest == first.manifest  # from the cache


def test_another_winner_changes_the_last_layer_only(tmp_path: Path, bench: Bench) -> None:
    packed = [bench.pack(write_version(tmp_path / str(weight), weight=weight)) for weight in (1.0, 2.0)]
    (*first, model, _), (*second, other, _) = (one.manifest.parts for one in packed)
    assert first == second
    assert len(first) == 3
    assert model != other
    names = {name for name, _ in bench.open_layer(model)}
    assert {"opt/hone/model/artifact/model.onnx", "opt/hone/model/evidence/evidence.json"} <= names
    assert "opt/hone/server.json" in names


def test_the_configuration_starts_the_server_as_nobody(tmp_path: Path, bench: Bench) -> None:
    packed = bench.pack(write_version(tmp_path / "one"))
    config = bench.read(packed.manifest.parts[-1])
    settings = config["config"]
    assert settings["User"] == "10001:10001"
    assert settings["StopSignal"] == "SIGTERM"
    assert set(settings["ExposedPorts"]) == {"8080/tcp", "8081/tcp"}
    assert settings["Entrypoint"][:4] == ["python3", "-P", "-m", "kedro_hone.serving.server"]
    assert {"ORT_DISABLE_TELEMETRY=1", "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/bin", "HOME=/tmp"} <= set(
        settings["Env"]
    )
    evidence = tmp_path / "one" / "evidence" / "evidence.json"
    assert settings["Labels"]["org.kedro-hone.evidence"] == digest_file(evidence)
    layers = packed.manifest.parts[:-1]
    assert len(config["rootfs"]["diff_ids"]) == len(layers) == len(bench.read(packed.manifest.descriptor)["layers"])
    for layer, diff_id in zip(layers, config["rootfs"]["diff_ids"], strict=True):
        plain = tmp_path / "plain"
        plain.write_bytes(gzip.decompress(bench.blobs.locate(layer.digest).read_bytes()))
        assert digest_file(plain) == diff_id


def test_evidence_and_signature_refer_to_the_image(tmp_path: Path, bench: Bench) -> None:
    packed = bench.pack(write_version(tmp_path / "one", signed=True))
    kinds = [one.descriptor.artifact_type for one in packed.referrers]
    assert [str(kind).partition("+")[0] for kind in kinds] == [
        "application/vnd.kedro-hone.evidence.v2",
        "application/vnd.kedro-hone.model-signature.v1",
        "application/vnd.cyclonedx",
    ]
    for one in packed.referrers:
        assert bench.read(one.descriptor)["subject"]["digest"] == packed.manifest.descriptor.digest


def test_other_forms_of_the_winner_are_left_out_with_the_list_of_all_files(tmp_path: Path, bench: Bench) -> None:
    version = write_version(tmp_path / "one")
    (version / "exports" / "triton").mkdir(parents=True)
    (version / "exports" / "triton" / "config.pbtxt").write_text("name: 'one'")
    digest = write_version_files(version, model="one")
    (version / "hone.json").write_text(json.dumps({"tags": {"hone.files": digest}}))
    packed = bench.pack(version)
    files = dict(bench.open_layer(packed.manifest.parts[-2]))
    assert "opt/hone/model/artifact/model.onnx" in files
    assert not [name for name in files if any(one in name for one in ("exports", "hone-files", "hone.json"))]
    for name, content in files.items():
        (tmp_path / "layer" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "layer" / name).write_bytes(content)
    with pull_winner(str(tmp_path / "layer" / "opt" / "hone" / "model")) as unpacked:  # its files are compared
        assert unpacked.artifact.format == "onnx"


def test_a_planted_secret_stops_the_image(tmp_path: Path, bench: Bench) -> None:
    version = write_version(tmp_path / "one", note="the password is s3cr3t-value")
    private = read_private(tmp_path, {"DATABASE_PASSWORD": "s3cr3t-value"})
    with pytest.raises(HoneError, match=r"opt/hone/model/evidence/evidence\.json") as refused:
        bench.pack(version, private, paths=False)
    assert refused.value.slug == "image-leaks"
    assert "DATABASE_PASSWORD" in refused.value.why


@pytest.mark.attack(
    what="a secret or a path of this machine in evidence that a run attaches to an image, and in a base's settings",
    who="nobody",
    stopped_by="what is attached and the configuration are searched as the layers are, before anything is pushed",
)
@pytest.mark.parametrize(
    ("evidence", "paths"),
    [
        (b'{"reason": "the password is s3cr3t-value"}', False),
        (b'{"source": {"uri": "/srv/teams/fraud/model.onnx"}}', True),
        (b"hf_" + b"a1" * 17, False),
    ],
)
def test_what_is_attached_to_an_image_is_searched(tmp_path: Path, bench: Bench, evidence: bytes, paths: bool) -> None:
    version = write_version(tmp_path / "one")
    private = read_private(Path("/srv/teams/fraud"), {"DATABASE_PASSWORD": "s3cr3t-value"})
    attached = [Statement(kind=EVIDENCE_TYPE, name="evidence.json", content=evidence)]
    with pytest.raises(HoneError, match=r"attached/evidence\.json") as refused:
        bench.pack(version, private, paths=paths, attached=attached)
    assert refused.value.slug == "image-leaks"


def test_the_configuration_of_an_image_is_searched(tmp_path: Path, bench: Bench) -> None:
    private = read_private(tmp_path, {"BASE_TOKEN": "PATH=/usr/bin"})
    with pytest.raises(HoneError, match=r"config\.json contains the value of BASE_TOKEN"):
        bench.pack(write_version(tmp_path / "one"), private)


def test_no_layer_names_this_machine(tmp_path: Path, bench: Bench) -> None:
    packed = bench.pack(write_version(tmp_path / "one"), read_private(tmp_path))
    for layer in packed.manifest.parts[1:-1]:
        for name, content in bench.open_layer(layer):
            assert str(tmp_path).encode() not in content, name
            assert str(Path(__file__).parents[4]).encode() not in content, name
