"""A server in the Hub's place, or a repository on it, that attacks who pulls: real requests to a loopback Hub."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hub_client import WARNINGS, hub
from hub_server import Fault
from hub_server.state import PullRequest
from mlflow_store import WARNINGS as OF_MLFLOW
from mlflow_store import make_winner, onnx_model, prove
from proof import TAGS

from hone_runtime.errors import HoneError
from hone_runtime.text import clean_text
from kedro_hone.events.sweep import find_arrivals

pytest.importorskip("huggingface_hub")

pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS + OF_MLFLOW]

__all__ = ["hub", "make_winner", "onnx_model", "prove"]


@pytest.fixture
def registry(hub):
    from kedro_hone.adaptors.registries.huggingface.registry import HuggingFaceRegistry

    return HuggingFaceRegistry()


def serve_instead(hub, match: str, body: bytes, **headers: str) -> None:
    """Let the Hub respond with these bytes and headers to what a pattern finds."""
    sha = hub.repositories["org/model"].head
    hub.faults.append(Fault(match, status=200, body=body, headers={"X-Repo-Commit": sha, **headers}))


@pytest.mark.attack(
    what="a server in the Hub's place that keeps a download in a file of the user, to read or write that",
    who="registry",
    stopped_by="a response whose tag is a path is refused before huggingface_hub sees it",
)
@pytest.mark.parametrize("header", ["ETag", "X-Linked-Etag"])
@pytest.mark.parametrize("there", [True, False], ids=["read", "written"])
def test_a_download_that_is_kept_outside_the_cache(hub, registry, tmp_path, header, there):
    diary = tmp_path / "diary.txt"
    if there:
        diary.write_text("dear diary")
    serve_instead(hub, "vocab.txt", b"evil", **{header: '"../../../../diary.txt"'})
    with pytest.raises(HoneError) as caught:
        registry.pull("hf://org/model@main", tmp_path / "pulled")
    assert caught.value.slug == "registry-unreachable"
    assert not (tmp_path / "pulled" / "vocab.txt").exists()
    assert diary.exists() == there


@pytest.mark.attack(
    what="a server in the Hub's place that breaks the connection, for a new session of huggingface_hub without checks",
    who="registry",
    stopped_by="a download ends before its first byte where its response was not checked",
)
def test_a_session_that_is_opened_again(hub, registry, tmp_path):
    from huggingface_hub.utils import close_session

    diary = tmp_path / "diary.txt"
    hub.faults.append(Fault("HEAD .*vocab.txt", status=503, call=close_session, times=1))
    serve_instead(hub, "vocab.txt", b"evil", ETag='"../../../../diary.txt"')
    with pytest.raises(HoneError) as caught:
        registry.pull("hf://org/model@main", tmp_path / "pulled")
    assert caught.value.slug == "registry-unreachable"
    assert not diary.exists()
    assert hub.count("HEAD .*vocab.txt") > 1


@pytest.mark.attack(
    what="a link in huggingface_hub's cache to a file of the user, which a version would then hold",
    who="registry",
    stopped_by="a file of the cache is taken only if it lies in the cache",
)
def test_a_link_out_of_the_cache(hub, registry, tmp_path):
    from huggingface_hub import constants

    (tmp_path / "diary.txt").write_text("dear diary")
    sha = hub.repositories["org/model"].head
    link = Path(constants.HF_HUB_CACHE) / "models--org--model" / "snapshots" / sha / "vocab.txt"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "diary.txt")
    with pytest.raises(HoneError, match="out of the cache"):
        registry.pull("hf://org/model@main", tmp_path / "pulled")
    registry.pull("hf://org/model@main", tmp_path / "again")
    assert (tmp_path / "again" / "vocab.txt").read_text() != "dear diary"


@pytest.mark.attack(
    what="a server in the Hub's place whose list of files, or file, has no end, or a bomb of gzip in its place",
    who="registry",
    stopped_by="what is no file is read up to a bound, and a file up to about the size in the list",
)
@pytest.mark.parametrize("match", ["GET /api/models/org/model", "GET .*/resolve/.*/vocab.txt"], ids=["list", "file"])
def test_a_response_without_end(hub, registry, tmp_path, monkeypatch, match):
    from kedro_hone.adaptors.registries.huggingface import guard

    monkeypatch.setattr(guard, "LARGEST_REPLY", 1 << 20)
    monkeypatch.setattr(guard, "SPARE", 1 << 20)
    bomb = gzip.compress(bytes(12 << 20))
    hub.faults.append(Fault(match, status=200, body=bomb, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(HoneError, match=r"It sent a reply of more than 1 MiB|A file has no end") as caught:
        registry.pull("hf://org/model@main", tmp_path / "pulled")
    assert caught.value.slug == "registry-unreachable"


@pytest.mark.attack(
    what="a server in the Hub's place whose pages of a list have no end, for a thread that asks for the next forever",
    who="registry",
    stopped_by="a call that nobody waits for ends at its next response",
)
def test_pages_without_end(hub, registry, monkeypatch):
    from kedro_hone.adaptors.registries.huggingface import connection

    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 1)
    link = f'<{hub.url}/api/models?author=org>; rel="next"'
    hub.faults.append(Fault("GET /api/whoami", status=200, body=b'{"name": "org"}', times=1))
    hub.faults.append(Fault(r"GET /api/models\?", status=200, body=b"[]", headers={"Link": link}))
    with pytest.raises(HoneError):
        registry.versions_since(None)
    # None where the call has already ended.
    for thread in [one for one in threading.enumerate() if one.name == "hone-registry"]:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert hub.count(r"GET /api/models\?")


@pytest.mark.attack(
    what="a repository of the Hub whose hone.json is none, or that is gated or gone, to end each sweep of all others",
    who="registry",
    stopped_by="what cannot be read is left out, told, and tried again",
)
def test_a_repository_that_cannot_be_read_hides_no_other(hub, tmp_path):
    hub.add("org/a-none", {"model.safetensors": b"1", "hone.json": b"{}"})
    for name, status, code in (("b-gated", 403, "GatedRepo"), ("c-gone", 404, "RepoNotFound"), ("d-odd", 500, "")):
        hub.add(f"org/{name}", {"model.safetensors": b"1"})
        fault = Fault(f"GET /api/models/org/{name}", status=status, headers={"X-Error-Code": code})
        hub.faults.append(fault)
    hub.add("org/z-good", {"model.safetensors": b"1"})
    found = find_arrivals("hf://", None, project=tmp_path)
    assert [event.name for event in found.events] == ["org/model", "org/z-good"]
    assert sorted(found.skipped) == [
        f"hf://org/{name}@{hub.repositories[f'org/{name}'].head}" for name in ("a-none", "b-gated", "c-gone", "d-odd")
    ]
    assert "hone.json" in next(iter(found.skipped.values()))

    hub.faults.clear()  # what was left out is tried again, and what was found is not told again
    again = find_arrivals("hf://", found.cursor, project=tmp_path)
    assert [event.name for event in again.events] == ["org/b-gated", "org/c-gone", "org/d-odd"]
    hub.repositories["org/a-none"].commit({"hone.json": None})
    last = find_arrivals("hf://", again.cursor, project=tmp_path)
    assert ([event.name for event in last.events], last.skipped) == (["org/a-none"], {})


def test_a_hub_that_fails_in_the_middle_is_no_repository_that_does(hub, tmp_path):
    hub.faults.append(Fault("GET /api/models/org/model", status=500, call=hub.tokens.clear))
    with pytest.raises(HoneError):
        find_arrivals("hf://", None, project=tmp_path)


@pytest.mark.attack(
    what="a file of the Hub whose download leads to another host, for the token of who downloads it",
    who="registry",
    stopped_by="huggingface_hub sends its token to the Hub only",
)
def test_a_redirect_does_not_get_the_token(hub, registry, tmp_path):
    with serve_elsewhere(b"the") as (url, seen):
        away = {"Location": url, "X-Linked-Etag": '"e"', "X-Linked-Size": "3"}
        sha = hub.repositories["org/model"].head
        hub.faults.append(Fault("resolve/.*vocab.txt", status=302, body=b"", headers={"X-Repo-Commit": sha, **away}))
        registry.pull("hf://org/model@main", tmp_path / "pulled")
    assert seen == [None]


@contextmanager
def serve_elsewhere(body: bytes):
    """Yield the address of another host, and the authorizations that it was sent."""
    seen = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.attack(
    what="a list of the Hub whose next page, or a call whose response, is at another host, for the token",
    who="registry",
    stopped_by="a request to another host than HF_ENDPOINT gets no token",
)
@pytest.mark.parametrize("way", ["next page", "redirect"])
def test_another_page_does_not_get_the_token(hub, registry, way):
    hub.faults.append(Fault("GET /api/whoami", status=200, body=b'{"name": "org"}', times=1))
    with serve_elsewhere(b"[]") as (url, seen):
        status, headers = (200, {"Link": f'<{url}>; rel="next"'}) if way == "next page" else (307, {"Location": url})
        hub.faults.append(Fault(r"GET /api/models\?", status=status, body=b"[]", headers=headers))
        with suppress(HoneError):
            registry.versions_since(None)
    assert seen
    assert set(seen) == {None}


@pytest.mark.attack(
    what="a revision, in a recipe or in a winner's source, that is a path out of huggingface_hub's cache",
    who="registry",
    stopped_by="what git takes as no revision is refused",
)
@pytest.mark.parametrize("revision", ["../../../../evil", "a/../../evil", "/etc/evil", "a\x1b]0;b", "a//b", "-x"])
def test_a_revision_that_is_a_path(revision):
    from kedro_hone.adaptors.registries.huggingface.references import read_uri

    with pytest.raises(HoneError) as caught:
        read_uri(f"hf://org/model@{revision}")
    assert caught.value.slug == "registry-unknown"


@pytest.mark.attack(
    what="a server in the Hub's place that gives another commit than the one that is pinned",
    who="registry",
    stopped_by="a pinned commit is compared with that of the response",
)
def test_another_commit_than_the_pinned_one(hub, registry):
    repository = hub.repositories["org/model"]
    pinned = repository.head
    repository.commit({"config.json": b"{}"}, title="evil")
    body = json.dumps(repository.describe(repository.head, blobs=True)).encode()
    hub.faults.append(Fault("GET /api/models/org/model/revision", status=200, body=body))
    with pytest.raises(HoneError) as caught:
        registry.resolve(f"hf://org/model@{pinned}")
    assert caught.value.slug == "registry-unreachable"


@pytest.mark.attack(
    what="a server in the Hub's place that repeats the token in its error",
    who="registry",
    stopped_by="what has the form of a token of the Hub is hidden, also where no variable holds it",
)
def test_a_token_from_a_file_is_hidden(hub, registry, monkeypatch, tmp_path):
    token = "hf_" + "aB3" * 11 + "x"
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "hf").mkdir(exist_ok=True)
    (tmp_path / "hf" / "token").write_text(token)
    said = f"nobody knows {token}"
    hub.faults.append(Fault("GET /api", status=403, headers={"X-Error-Message": said}, body=said.encode()))
    with pytest.raises(HoneError) as caught:
        registry.resolve("hf://org/model@main")
    assert "nobody knows ***" in clean_text(str(caught.value))
    assert token not in clean_text(str(caught.value))


@pytest.mark.attack(
    what="a stranger's pull request with the title and the hone.json of ours, which the run would name as its own",
    who="registry",
    stopped_by="only a pull request of the token's own account counts as the one that was opened",
)
def test_a_pull_request_of_a_stranger_is_not_ours(hub, registry, make_winner, prove):
    repository, winner = hub.repositories["org/model"], prove(make_winner())
    propose = partial(registry.propose, winner, name="org/model", tags=TAGS, alias="honed")
    ours, opened = propose(), repository.pulls[0]
    evil = {**repository.commits[ours.version].files, "MLmodel": b"loader_module: evil"}
    repository.commit(evil, ref="refs/pr/2", parent=repository.head)
    repository.pulls.append(PullRequest(2, opened.title, "other"))
    assert propose() == ours
