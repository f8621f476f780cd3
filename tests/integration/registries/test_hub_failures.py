"""A Hub that denies, fails, or talks nonsense: each is an error for people, and nothing is half published."""

from __future__ import annotations

import errno
import json
import socket
import time

import pytest
from hub_client import CONFIG, READER, WRITER, hub
from hub_server import Fault
from huggingface_hub import constants
from proof import TAGS

from hone_runtime.contract.registries import find_registry
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.huggingface import connection, snapshots

__all__ = ["hub"]
URI = "hf://org/model"
SOON = 150
"""Seconds: only a call that hangs takes longer."""


def catch(call) -> HoneError:
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


@pytest.fixture
def registry(hub):
    return find_registry(URI)


@pytest.fixture
def proven(make_winner, prove):
    return prove(make_winner())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 3.0)
    monkeypatch.setattr(connection, "STALL_SECONDS", 3.0)


@pytest.fixture
def catch_soon(monkeypatch):
    """Return ``catch`` for what fails however long it is waited for; what must go well may take longer."""

    def catch_it(call):
        with monkeypatch.context() as patch:
            patch.setattr(connection, "PATIENCE_SECONDS", 1.5)
            patch.setattr(connection, "STALL_SECONDS", 1.5)
            return catch(call)

    return catch_it


def publish(registry, winner, **arguments):
    wanted = {"name": "org/model", "tags": TAGS, "alias": "honed"}
    return registry.publish(winner, **wanted | arguments)


@pytest.mark.parametrize(
    ("uri", "slug"),
    [
        ("hf://org/nothing", "model-unknown"),
        ("hf://org/model@v9", "version-unknown"),
        ("hf://other/secret", "model-unknown"),
    ],
)
def test_what_does_not_exist_or_does_not_show_itself(hub, registry, uri, slug):
    hub.add("other/secret", {"config.json": CONFIG}, private=True)
    assert catch(lambda: registry.resolve(uri)).slug == slug


@pytest.mark.parametrize("token", ["", "hf_nobody"])
def test_without_a_valid_token_access_is_denied(hub, registry, monkeypatch, token):
    hub.repositories["org/model"].private = True
    monkeypatch.setenv("HF_TOKEN", token)
    error = catch(lambda: registry.resolve(URI))
    assert error.slug == "registry-denied"
    assert "HF_TOKEN" in error.hint
    assert "hf_nobody" not in str(error)


def test_a_gated_repository_asks_for_its_terms(hub, registry, tmp_path):
    hub.add("other/gated", {"config.json": CONFIG, "model.safetensors": b"x" * 2000}, gated=True)
    error = catch(lambda: registry.pull("hf://other/gated", tmp_path / "pulled"))
    assert error.slug == "registry-denied"
    assert f"{hub.url}/other/gated" in error.hint
    hub.tokens[WRITER].accepted.add("other/gated")
    assert registry.pull("hf://other/gated", tmp_path / "again")


def test_a_private_repository_is_pulled_with_a_token(hub, registry, tmp_path):
    hub.repositories["org/model"].private = True
    assert registry.pull(URI, tmp_path / "pulled").name == "org/model"


@pytest.mark.parametrize("token", ["", "hf_nobody", READER, "hf_other"])
def test_a_token_without_rights_publishes_nothing(hub, registry, proven, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    repository = hub.repositories["org/model"]
    before = dict(repository.refs)
    error = catch(lambda: publish(registry, proven))
    assert error.slug == "registry-denied"
    assert repository.refs == before


def test_whoever_may_read_may_propose(hub, registry, make_winner, prove, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    done = registry.propose(prove(make_winner()), name="org/model", tags=TAGS, alias="honed")
    assert hub.repositories["org/model"].refs["refs/pr/1"] == done.version


FAULTS = {
    "401": (Fault("", status=401), "registry-denied"),
    "403": (Fault("", status=403), "registry-denied"),
    "404": (Fault("", status=404), "registry-unreachable"),
    "500": (Fault("", status=500), "registry-unreachable"),
    "503": (Fault("", status=503), "registry-unreachable"),
    "429": (Fault("", status=429, headers={"Retry-After": "3600"}), "registry-limited"),
    "garbage": (Fault("", status=200, body=b"<html>Welcome</html>"), "registry-unreachable"),
    "a list": (Fault("", status=200, body=b"[1, 2]"), "registry-unreachable"),
    "nulls": (Fault("", status=200, body=b'{"id": null, "sha": null, "siblings": [null]}'), "registry-unreachable"),
    "nothing": (Fault("", hang=60), "registry-unreachable"),
}


@pytest.mark.parametrize(("fault", "slug"), FAULTS.values(), ids=FAULTS)
def test_every_bad_response_to_resolve_is_an_error_for_people(hub, registry, catch_soon, fault, slug):
    hub.faults = [Fault(**vars(fault) | {"match": "/api/models"})]
    start = time.monotonic()
    assert catch_soon(lambda: registry.resolve(URI)).slug == slug
    assert time.monotonic() - start < SOON


@pytest.mark.parametrize("name", [name for name, (fault, _) in FAULTS.items() if fault.status != 200])
def test_every_bad_response_to_a_pull_is_an_error_for_people(hub, registry, catch_soon, name, tmp_path):
    fault, slug = FAULTS[name]
    hub.faults = [Fault(**vars(fault) | {"match": "/resolve/.*model.safetensors"})]
    start = time.monotonic()
    assert catch_soon(lambda: registry.pull(URI, tmp_path / "pulled")).slug == slug
    assert time.monotonic() - start < SOON
    hub.faults = []
    assert registry.pull(URI, tmp_path / "again").name == "org/model"


STEPS = [("commit", name) for name in FAULTS] + [
    (step, name) for step in ("preupload", "objects/batch", "_lfs/") for name in ("403", "429", "500", "nothing")
]


@pytest.mark.nightly
@pytest.mark.parametrize("case", STEPS, ids="-".join)
def test_every_bad_response_to_a_publication_is_an_error_for_people(hub, registry, proven, catch_soon, case):
    step, name = case
    fault, slug = FAULTS[name]
    repository = hub.repositories["org/model"]
    before = dict(repository.refs)
    hub.faults = [Fault(**vars(fault) | {"match": f"(POST|PUT) .*{step}"})]
    error = catch_soon(lambda: publish(registry, proven))
    assert error.slug == slug
    assert repository.refs == before
    hub.faults = []
    assert publish(registry, proven).version == repository.head


def test_a_short_retry_after_is_waited_for(hub, registry):
    hub.faults = [Fault("/api/models", status=429, headers={"Retry-After": "1"}, times=1)]
    start = time.monotonic()
    assert registry.resolve(URI).name == "org/model"
    assert time.monotonic() - start >= 1


def test_one_that_is_busy_for_a_moment_is_asked_again(hub, registry):
    hub.faults = [Fault("/api/models", status=503, times=2)]
    assert registry.resolve(URI).name == "org/model"


@pytest.mark.parametrize("body", [b"x" * 10, b"y" * 204_800], ids=["short", "other"])
def test_what_a_killed_download_left_is_no_part_of_a_file(hub, registry, tmp_path, body):
    blobs = registry._hub.find_folder("org/model") / "blobs"
    blobs.mkdir(parents=True)
    sha256 = hub.repositories["org/model"].files["model.safetensors"].sha256
    (blobs / f"{sha256}.12345678.incomplete").write_bytes(body)
    registry.pull(URI, tmp_path / "pulled")
    expected = hub.repositories["org/model"].files["model.safetensors"].read()
    assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == expected


def test_a_connection_that_breaks_in_a_file_is_continued(hub, registry, tmp_path):
    hub.faults = [Fault("GET .*model.safetensors", cut=70_000, times=1)]
    registry.pull(URI, tmp_path / "pulled")
    assert (tmp_path / "pulled" / "model.safetensors").stat().st_size == 204_800


def test_a_refused_connection(monkeypatch, hub):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{free}")
    error = catch(lambda: find_registry(URI).resolve(URI))
    assert error.slug == "registry-unreachable"
    assert "HF_ENDPOINT" in error.hint


@pytest.mark.parametrize(
    ("number", "slug"), [(errno.ENOSPC, "store-full"), (errno.EDQUOT, "store-full"), (errno.EROFS, "store-read-only")]
)
@pytest.mark.usefixtures("hub")
def test_a_cache_that_cannot_be_written(registry, tmp_path, monkeypatch, number, slug):
    def fail(*_, **__):
        raise OSError(number, "no")

    monkeypatch.setattr(snapshots, "hf_hub_download", fail)
    error = catch(lambda: registry.pull(URI, tmp_path / "pulled"))
    assert error.slug == slug
    assert constants.HF_HUB_CACHE in error.what


def test_a_full_quota_publishes_nothing(hub, registry, make_winner, prove):
    hub.quota = 10
    repository = hub.repositories["org/model"]
    before = dict(repository.refs)
    error = catch(lambda: publish(registry, prove(make_winner())))
    assert error.slug == "registry-full"
    assert "storage limit" in error.why
    assert repository.refs == before


def test_offline_nothing_is_published(hub, registry, make_winner, prove, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert catch(lambda: publish(registry, prove(make_winner()))).slug == "registry-offline"
    assert not hub.requests


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"tags": 1}'])
def test_tags_that_cannot_be_read(hub, registry, text, tmp_path):
    hub.repositories["org/model"].commit({"hone.json": text})
    assert catch(lambda: registry.pull(URI, tmp_path / "pulled")).slug == "model-corrupt"


def test_tags_that_name_files_out_of_the_folder(hub, registry, make_winner, prove, tmp_path):
    publish(registry, prove(make_winner()))
    repository = hub.repositories["org/model"]
    said = json.loads(repository.files["hone.json"].read())
    repository.commit({"hone.json": json.dumps(said | {"files": ["../x"]}).encode()})
    assert catch(lambda: registry.pull(URI, tmp_path / "pulled")).slug == "model-corrupt"


def test_tags_without_end_are_not_downloaded(hub, registry, tmp_path):
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(100 << 20)
    hub.repositories["org/model"].commit({"hone.json": large})
    assert catch(lambda: registry.resolve(URI)).slug == "model-corrupt"
    assert hub.count("resolve") == 0


@pytest.mark.parametrize("path", ["{}/stolen.onnx", "../stolen.onnx", "a/../../stolen.onnx"])
def test_a_hub_that_names_files_out_of_the_folder(hub, registry, tmp_path, path):
    hub.add("org/bad", {"model.onnx": b"x", path.format(tmp_path): b"y"})
    assert catch(lambda: registry.pull("hf://org/bad", tmp_path / "pulled")).slug == "registry-unreachable"
    assert hub.count("resolve") == 0


def test_a_repository_without_a_model(hub, registry, tmp_path):
    hub.add("org/empty", {"README.md": b"# nothing"})
    assert catch(lambda: registry.pull("hf://org/empty", tmp_path / "pulled")).slug == "model-unsupported"
