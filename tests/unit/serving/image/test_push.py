from __future__ import annotations

import json
import os
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_registry import (
    REGISTRY,
    CuttingProxy,
    QuietHandler,
    fetch,
    find_port,
    need,
    run_registry,
    run_server,
    serve,
)

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import CONFIG, INDEX, LAYER, MANIFEST, Manifest, digest_bytes
from kedro_hone.serving.image.push import Progress, push_image
from kedro_hone.serving.image.references import read_reference
from kedro_hone.serving.image.referrers import Statement, attach
from kedro_hone.serving.image.registry import Repository

ADA = b64encode(b"ada:lovelace").decode()
LOVELACE = "$2b$04$I1Hn2XmYCFMw8isorc5d2Oll5OHCipmV9IgsvdQZLOtNq8NYNcPfm"
"""The password in the form of htpasswd."""
NO_PAUSES = (0.0, 0.0, 0.0, 0.0)
LARGE = 3 << 20


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with run_registry(tmp_path / "registry") as host:
        yield host


def make_image(blobs: Blobs, *contents: bytes) -> Manifest:
    layers = tuple(blobs.add(content, LAYER) for content in contents)
    config = blobs.add_json({"architecture": "amd64", "os": "linux", "rootfs": {}}, CONFIG)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.dump(),
        "layers": [one.dump() for one in layers],
    }
    return Manifest(descriptor=blobs.add_json(document, MANIFEST), parts=(*layers, config))


def push(image: Manifest, host: str, blobs: Blobs, *referrers: Manifest) -> Progress:
    target = read_reference(f"{host}/team/digits:4")
    repository = Repository(target, push=True, pauses=NO_PAUSES)
    return push_image(image, target, blobs=blobs, repository=repository, referrers=referrers)


def refuse(image: Manifest, host: str, blobs: Blobs) -> HoneError:
    with pytest.raises(HoneError) as refused:
        push(image, host, blobs)
    assert refused.value.slug == "image-push-failed"
    return refused.value


def is_tagged(host: str) -> bool:
    reference = read_reference(f"{host}/team/digits:4")
    return Repository(reference).read_manifest(reference.tag) is not None


@need(REGISTRY)
def test_another_image_sends_only_the_blobs_that_are_new(registry: str, blobs: Blobs) -> None:
    first, second = (make_image(blobs, b"base", b"packages", model) for model in (b"model 1", b"model 2"))
    assert len(push(first, registry, blobs).sent) == 4
    body, headers = fetch(f"http://{registry}/v2/team/digits/manifests/4", Accept=MANIFEST)
    assert headers["Docker-Content-Digest"] == first.descriptor.digest
    assert body == blobs.locate(first.descriptor.digest).read_bytes()
    done = push(second, registry, blobs)
    assert done.sent == [second.parts[2]]
    assert push(second, registry, blobs).sent == []


@need(REGISTRY)
def test_who_refers_to_an_image_is_found_by_the_fallback_tag(registry: str, blobs: Blobs) -> None:
    image = make_image(blobs, b"model")
    statements = [Statement(kind=f"application/x-{name}", name=name, content=name.encode()) for name in ("a", "b")]
    for _ in range(2):
        push(image, registry, blobs, *(attach(one, image.descriptor, blobs) for one in statements))
    tag = image.descriptor.digest.replace(":", "-")
    listed = json.loads(fetch(f"http://{registry}/v2/team/digits/manifests/{tag}", Accept=INDEX)[0])["manifests"]
    assert [one["artifactType"] for one in listed] == ["application/x-a", "application/x-b"]
    url = f"http://{registry}/v2/team/digits/manifests/{listed[1]['digest']}"
    found = json.loads(fetch(url, Accept=MANIFEST)[0])
    assert found["subject"]["digest"] == image.descriptor.digest
    (layer,) = found["layers"]
    assert fetch(f"http://{registry}/v2/team/digits/blobs/{layer['digest']}")[0] == b"b"


@need(REGISTRY)
def test_an_upload_that_is_cut_is_repeated(registry: str, blobs: Blobs) -> None:
    image = make_image(blobs, os.urandom(LARGE))
    proxy = CuttingProxy(registry, limit=LARGE // 2, cuts=2)
    try:
        assert push(image, proxy.host, blobs).tagged
    finally:
        proxy.close()
    assert proxy.cuts == 0
    content, _ = fetch(f"http://{registry}/v2/team/digits/blobs/{image.parts[0].digest}")
    assert digest_bytes(content) == image.parts[0].digest


def test_an_upload_that_is_cut_goes_on_where_the_registry_has_it(blobs: Blobs) -> None:
    """Docker's registry begins again; others do as the distribution specification says, as this one does."""
    content = os.urandom(LARGE)
    blob, received, cuts = blobs.add(content, LAYER), bytearray(), [LARGE // 3, 2 * LARGE // 3]

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name in http.server
            self.respond(202, Location="/upload?state=1")

        def do_GET(self) -> None:  # noqa: N802 - the name in http.server
            self.respond(204, Location="/upload?state=2", Range=f"0-{max(0, len(received) - 1)}")

        def do_PATCH(self) -> None:  # noqa: N802 - the name in http.server
            first = int(self.headers.get("Content-Range", "0-").partition("-")[0])
            assert first == len(received)
            if cuts and cuts[0] > first:
                received.extend(self.rfile.read(cuts.pop(0) - first))
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            received.extend(self.rfile.read(int(self.headers["Content-Length"])))
            self.respond(202, Location="/upload?state=3")

        def do_PUT(self) -> None:  # noqa: N802 - the name in http.server
            self.respond(201 if f"state=3&digest={digest_bytes(bytes(received))}" in self.path else 400)

    with run_server(Handler) as base:
        reference = read_reference(f"{base.removeprefix('http://')}/team/digits:4")
        Repository(reference, push=True, pauses=NO_PAUSES).push_blob(blob, blobs.locate(blob.digest))
    assert not cuts
    assert bytes(received) == content


@pytest.mark.parametrize("status", [400, 404, 416])
def test_an_upload_that_the_registry_has_lost_begins_again(blobs: Blobs, status: int) -> None:
    """Docker's registry names the place of an upload whose connection ended, and then refuses the rest of it."""
    content = os.urandom(LARGE)
    blob, received, begun = blobs.add(content, LAYER), bytearray(), []

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name in http.server
            begun.append(True)
            self.respond(202, Location=f"/upload?state={len(begun)}")

        def do_GET(self) -> None:  # noqa: N802 - the name in http.server
            self.respond(204, Location=self.path, Range="0-0")

        def do_PATCH(self) -> None:  # noqa: N802 - the name in http.server
            if "state=1" in self.path and not received:
                received.extend(self.rfile.read(LARGE // 3))
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            received[:] = self.rfile.read(int(self.headers["Content-Length"]))
            self.respond(status if "state=1" in self.path else 202, Location=self.path)

        def do_PUT(self) -> None:  # noqa: N802 - the name in http.server
            self.respond(201 if f"state=2&digest={digest_bytes(bytes(received))}" in self.path else 400)

    with run_server(Handler) as base:
        reference = read_reference(f"{base.removeprefix('http://')}/team/digits:4")
        Repository(reference, push=True, pauses=NO_PAUSES).push_blob(blob, blobs.locate(blob.digest))
    assert len(begun) == 2
    assert bytes(received) == content


@need(REGISTRY)
def test_a_registry_that_dies_leaves_nothing_under_the_tag_and_the_next_push_goes_on(
    tmp_path: Path, blobs: Blobs
) -> None:
    image, port = make_image(blobs, b"base", os.urandom(LARGE)), find_port()
    with run_registry(tmp_path / "registry", port=port) as host:
        proxy = CuttingProxy(host, limit=LARGE // 2, cuts=100)
        try:
            said = refuse(image, proxy.host, blobs)
        finally:
            proxy.close()
        assert "1 of 3 blobs" in said.why
        assert "not sent again" in said.hint
        assert not is_tagged(host)
    refuse(image, host, blobs)  # it is gone
    with run_registry(tmp_path / "registry", port=port) as host:
        assert not is_tagged(host)
        done = push(image, host, blobs)
        assert [one.digest for one in done.found] == [image.parts[0].digest]
        assert is_tagged(host)


@need(REGISTRY, "bwrap")
def test_a_registry_that_is_full_leaves_nothing_under_the_tag(tmp_path: Path, blobs: Blobs) -> None:
    image = make_image(blobs, b"base", os.urandom(LARGE))
    with run_registry(tmp_path / "registry", size=LARGE // 2) as host:
        said = refuse(image, host, blobs)
        assert "500" in said.why
        assert "1 of 3 blobs" in said.why
        assert not is_tagged(host)


@need(REGISTRY)
@pytest.mark.attack(
    what="an image under the name of another team, from somebody who is not logged in",
    who="network",
    stopped_by="the registry asks who pushes, and gets the user's credentials for it and for no other",
)
def test_who_is_logged_in_may_push(tmp_path: Path, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    image = make_image(blobs, b"model")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with run_registry(tmp_path / "registry", users=f"ada:{LOVELACE}\n") as host:
        for auths in ({}, {"other.example.org": {"auth": ADA}}, {host: {"auth": b64encode(b"ada:byron").decode()}}):
            (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))
            assert "docker login" in refuse(image, host, blobs).hint
        (tmp_path / "config.json").write_text(json.dumps({"auths": {host: {"auth": ADA}}}))
        assert push(image, host, blobs).tagged


def test_a_registry_that_lists_referrers_needs_no_fallback_tag(blobs: Blobs) -> None:
    image, stored = make_image(blobs, b"model"), dict[str, bytes]()

    class Handler(QuietHandler):
        def do_HEAD(self) -> None:  # noqa: N802 - the name in http.server
            self.respond(200)

        def do_GET(self) -> None:  # noqa: N802 - the name in http.server
            name = self.path.rpartition("/")[2]
            self.respond(200, stored[name]) if name in stored else self.respond(404)

        def do_PUT(self) -> None:  # noqa: N802 - the name in http.server
            body = self.rfile.read(int(self.headers["Content-Length"]))
            stored[self.path.rpartition("/")[2]] = body
            subject = json.loads(body).get("subject")
            self.respond(201, **({"OCI_Subject": subject["digest"]} if subject else {}))

    referrer = attach(Statement(kind="application/x-a", name="a", content=b"a"), image.descriptor, blobs)
    with run_server(Handler) as base:
        assert push(image, base.removeprefix("http://"), blobs, referrer).tagged
    assert set(stored) == {image.descriptor.digest, referrer.descriptor.digest, "4"}


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "docker login"), (403, "right to push"), (413, "size"), (507, "again")]
)
def test_a_refusal_has_the_status_and_what_to_do(blobs: Blobs, status: int, hint: str) -> None:
    body = json.dumps({"errors": [{"code": "DENIED", "message": "quota exceeded"}]}).encode()

    def answer(method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        return (404, {}, b"") if method == "HEAD" else (status, {}, body)

    with serve(answer) as (base, seen):
        said = refuse(make_image(blobs, b"model"), base.removeprefix("http://"), blobs)
    assert f"{status} DENIED: quota exceeded" in said.why
    assert hint in said.hint
    assert "0 of 2 blobs" in said.why
    assert not [path for method, path, _ in seen if method == "PUT" and "manifests" in path]


def test_a_registry_that_stores_other_bytes_is_noticed(blobs: Blobs) -> None:
    def answer(method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        return (200, {}, b"other") if method in {"HEAD", "GET"} else (201, {}, b"")

    with serve(answer) as (base, _):
        assert "is not the manifest" in refuse(make_image(blobs, b"m"), base.removeprefix("http://"), blobs).why
