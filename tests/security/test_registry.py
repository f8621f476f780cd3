"""A registry that denies, freezes, was changed meanwhile, or holds what is large or names code to load."""

from __future__ import annotations

import os
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow_store import WARNINGS, empty_database, make_winner, onnx_model, prove, tracking_uri
from proof import TAGS
from small_project import copy_project

from hone_runtime.contract.aliases import PULL
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.events.sweep import find_arrivals
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.schema import read_recipe

__all__ = ["empty_database", "make_winner", "onnx_model", "prove", "tracking_uri"]
pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
HANG = 600
"""Seconds after which a test is taken to hang."""


class Server(ThreadingHTTPServer):
    """A registry whose every response is the handler's; its URI is ``uri``."""

    daemon_threads = True

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def serve(monkeypatch):
    """Return a function that starts a server with a handler, as the registry."""
    servers = []

    def start(handler: type[BaseHTTPRequestHandler]) -> Server:
        servers.append(Server(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", servers[-1].uri)
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.attack(
    what="a registry that denies access, taken for one that is down",
    who="nobody",
    stopped_by="401 and 403 have an error of their own",
)
@pytest.mark.parametrize("body", [b"You are not authenticated.", b'{"error_code": "PERMISSION_DENIED"}'])
@pytest.mark.parametrize("status", [401, 403])
def test_a_registry_that_denies_says_which_credentials_to_check(serve, status, body, monkeypatch):
    class Denies(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    serve(Denies)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "not-in-any-message")
    with pytest.raises(HoneError) as caught:
        MlflowRegistry().resolve("models:/digits/1")
    assert caught.value.slug == "registry-denied"
    assert "respond" not in caught.value.what
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
        assert name in caught.value.hint
    assert "not-in-any-message" not in str(caught.value)


def publish(registry, winner, *, pull="", **more):
    tags = TAGS | ({PULL: pull} if pull else {})
    return registry.publish(winner, name="digits", tags=tags, alias="honed", **more)


def move_alias(registry, home, version):
    """Do what a person does: point the alias to a version, or remove it."""
    if isinstance(registry, LocalRegistry):
        (home / "honed").unlink(missing_ok=True)
        if version is not None:
            (home / "honed").symlink_to(version)
    elif version is None:
        registry._client.delete_registered_model_alias("digits", "honed")
    else:
        registry._client.set_registered_model_alias("digits", "honed", version)


@pytest.mark.attack(
    what="a run that undoes a person's rollback",
    who="nobody",
    stopped_by="the alias is compared with what it was at the pull",
)
@pytest.mark.parametrize("kind", ["mlflow", "local"])
@pytest.mark.parametrize("moved", ["back", "removed", "made"])
def test_an_alias_that_a_person_moved_meanwhile_stays(kind, moved, tmp_path, make_winner, prove):
    """A run pulls; a person rolls back, withdraws or sets the alias; the run ends and publishes."""
    registry = MlflowRegistry() if kind == "mlflow" else LocalRegistry(tmp_path)
    point = partial(move_alias, registry, tmp_path / "digits-hone")
    artifact = make_winner()
    assert registry.list_aliases("digits") == {}
    for run in "12":
        publish(registry, prove(artifact, run))
    if moved == "made":
        point(None)
    before = registry.list_aliases("digits")
    assert before == ({} if moved == "made" else {"honed": "2"})
    now = {"back": "1", "removed": None, "made": "1"}[moved]
    point(now)
    done = publish(registry, prove(artifact, "3"), before=before)
    assert (done.version, done.alias) == ("3", None)
    assert "'honed'" in done.note
    assert registry.list_aliases("digits") == ({"honed": now} if now else {})
    again = publish(registry, prove(artifact, "3"), before=before)
    assert again == done  # nothing was left half done
    honest = publish(registry, prove(artifact, "4"), before=registry.list_aliases("digits"))
    assert (honest.version, honest.alias, honest.note) == ("4", "honed", "")
    assert registry.list_aliases("digits") == {"honed": "4"}


@pytest.mark.parametrize("kind", ["mlflow", "local"])
def test_two_publications_of_one_pull_undo_no_rollback_and_take_no_move_of_their_own_for_one(
    kind, tmp_path, make_winner, prove
):
    """A run publishes, and again from the gate on; a person rolls back to what was there at the pull."""
    registry = MlflowRegistry() if kind == "mlflow" else LocalRegistry(tmp_path)
    artifact = make_winner()
    publish(registry, prove(artifact, "1"), before={}, pull="first")
    again = {"before": registry.list_aliases("digits"), "pull": "second"}
    assert again["before"] == {"honed": "1"}
    for version in "234":
        done = publish(registry, prove(artifact, version), **again)
        assert (done.version, done.alias, done.note) == (version, "honed", "")
        assert publish(registry, prove(artifact, version), **again) == done
    for back in "13":  # to what the pull saw, and to another of its own
        move_alias(registry, tmp_path / "digits-hone", back)
        done = publish(registry, prove(artifact, "4"), **again)
        assert (done.version, done.alias) == ("4", None)
        assert f"'honed' pointed to 4 when this pull's winner was published, and points to {back} now" in done.note
        assert registry.list_aliases("digits") == {"honed": back}
    assert publish(registry, prove(artifact, "5"), **again).alias is None
    third = publish(registry, prove(artifact, "6"), before={"honed": "3"}, pull="third")
    assert (third.version, third.alias) == ("6", "honed")
    assert publish(registry, prove(artifact, "7"), **again).note


@pytest.mark.attack(
    what="a model in a folder that cannot be read, or is none, to end each sweep of all others",
    who="registry",
    stopped_by="what cannot be read is left out, told, and tried again",
)
def test_a_model_that_cannot_be_read_hides_no_other(tmp_path):
    for name in ("good", "bad-hone/1", "bad-hone/2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.onnx").write_text("1")
    (tmp_path / "bad-hone" / "1" / "hone.json").write_text("{")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "model.onnx").write_text("1")
    (tmp_path / "odd" / os.fsdecode(b"\xff")).write_text("a name that is not text")
    os.mkfifo(tmp_path / "pipe.onnx")
    found = find_arrivals(str(tmp_path), None, project=tmp_path)
    assert [Path(event.uri).name for event in found.events] == ["good", "2"]
    assert [Path(uri).name for uri in found.skipped] == ["1", "odd"]
    assert "hone.json" in next(iter(found.skipped.values()))

    (tmp_path / "bad-hone" / "1" / "hone.json").unlink()
    again = find_arrivals(str(tmp_path), found.cursor, project=tmp_path)
    assert [Path(event.uri).name for event in again.events] == ["1"]
    (tmp_path / "good" / "hone.json").symlink_to("hone.json")  # to itself; before, the model was well
    (tmp_path / "good" / os.fsdecode(b"\xff")).write_text("")
    spoilt = find_arrivals(str(tmp_path), again.cursor, project=tmp_path)
    assert [Path(uri).name for uri in spoilt.skipped] == ["good", "odd"]
    for name in ("hone.json", os.fsdecode(b"\xff")):
        (tmp_path / "good" / name).unlink()
    assert find_arrivals(str(tmp_path), spoilt.cursor, project=tmp_path).events == ()


@pytest.mark.attack(
    what="a run that undoes a person's rollback of the time in which it copied the source",
    who="nobody",
    stopped_by="the aliases are read before the model is pulled",
)
def test_an_alias_that_is_moved_while_the_source_is_copied_was_moved(tmp_path, onnx_model, monkeypatch):
    home, source = tmp_path / "net-hone", tmp_path / "net"
    for version in "12":
        (home / version).mkdir(parents=True)
    move_alias(LocalRegistry(tmp_path), home, "2")
    source.mkdir()
    (source / "model.onnx").write_bytes(onnx_model.SerializeToString())
    copy = LocalRegistry.pull

    def pull_slowly(self, uri, folder):
        move_alias(self, home, "1")
        return copy(self, uri, folder)

    monkeypatch.setattr(LocalRegistry, "pull", pull_slowly)
    run = RunFolder(root=tmp_path / "runs", run_id="1", project=tmp_path)
    version, _ = pull(read_recipe({"model": {"uri": str(source)}}), Store(tmp_path / "store"), run)
    assert [each["honed"] for each in version.pointers.values()] == ["2"]


def test_the_line_that_is_gated_and_published_again_moves_its_alias(unpublished, tmp_path):
    project = copy_project(unpublished, tmp_path)
    home = project.root / "models" / "matrix-hone"
    project.run("--pipelines", "publish")
    assert (home / "honed").readlink().name == "1"
    project.run("--from-nodes", "gate.gate")
    assert (home / "honed").readlink().name == "2"


def test_the_line_leaves_an_alias_that_a_person_moved_since_the_pull(unpublished, tmp_path):
    project = copy_project(unpublished, tmp_path)
    home = project.root / "models" / "matrix-hone"
    (home / "7").mkdir(parents=True)  # what a person trusts more
    (home / "honed").symlink_to("7")
    done = project.run("--pipelines", "publish")
    assert (home / "honed").readlink().name == "7"
    said = "The alias 'honed' pointed to no version when the source was pulled, and points to 7 now"
    assert said in " ".join(done.output.split())
    (report,) = project.work.glob("runs/*/report.md")
    assert "pointed to no version" in report.read_text()
    project.run("--pipelines", "publish")  # the same again moves it no more than the first time
    assert (home / "honed").readlink().name == "7"
