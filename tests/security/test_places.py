"""A version says where its files are: a URL of its author's choice, who would have us ask there, with our token."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow_store import WARNINGS, make_winner, onnx_model, prove
from proof import TAGS

from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry

__all__ = ["make_winner", "onnx_model", "prove"]
pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
TOKEN = "-".join(["word", "of", "the", "user"])
SERVED = "api/2.0/mlflow-artifacts/artifacts"


@pytest.fixture
def client(tmp_path, monkeypatch, registry):
    """A client of an empty store in SQLite, in a project of its own."""
    import mlflow

    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "mlflow.db").rename(tmp_path / "project" / "data" / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/project/data/mlflow.db")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", TOKEN)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    return mlflow.MlflowClient()


@contextmanager
def serve():
    """Yield the address of a web server, and the authorizations of what it was asked for."""
    seen = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("Authorization"))
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def pull(client, tmp_path: Path, source: str, *, name: str = "net") -> str:
    """Return what the pull of a version is refused with; empty where it is not."""
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    version = client.create_model_version(name, source=source).version
    try:
        MlflowRegistry().pull(f"models:/{name}/{version}", tmp_path / f"pulled-{version}")
    except HoneError as error:
        assert not [*(tmp_path / f"pulled-{version}").iterdir()]
        return error.slug
    return ""


@pytest.mark.attack(
    what="a version whose files are at a URL of another host, for the token of the person who pulls it",
    who="registry",
    stopped_by="a web server is asked only where it is the registry's own",
)
@pytest.mark.parametrize(
    "source",
    [
        f"http://HOST/{SERVED}/evil",
        "http://HOST/evil",
        f"mlflow-artifacts://HOST/{SERVED}/evil",
        "mlflow-artifacts://HOST/evil",
        f"HTTP://HOST/{SERVED}/evil",
        f"http://user:word@HOST/{SERVED}/evil",
    ],
)
def test_another_host_is_not_asked(client, tmp_path, source):
    with serve() as (host, seen):
        assert pull(client, tmp_path, source.replace("HOST", host)) == "files-elsewhere"
    assert seen == []


@pytest.mark.parametrize(
    "source",
    [
        f"http://HOST/{SERVED}/evil",
        "http://HOST/evil",
        "mlflow-artifacts://HOST/evil",
        f"http://OWN@HOST/{SERVED}/evil",
        f"http://OWN\\@HOST/{SERVED}/evil",
        f"https://OWN/{SERVED}/evil",
        "http://OWN/elsewhere",
        f"http://OWN/{SERVED}/../../../../evil",
        f"http://OWN/{SERVED}/%2e%2e/%2e%2e/evil",
        "s3://evil/model",
        "ftp://HOST/evil",
        "sftp://HOST/evil",
        "file:///etc",
        "file://HOST/etc",
    ],
)
def test_another_host_than_the_server_is_not_asked(client, tmp_path, source):
    """With a server, whose URL is the registry's; what it says of its experiments is not looked at for these."""
    from kedro_hone.adaptors.registries.mlflow.places import find_place

    with serve() as (host, seen), serve() as (own, asked):
        place = source.replace("HOST", host).replace("OWN", own)
        with pytest.raises(HoneError) as caught:
            find_place(client, place, tracking_uri=f"http://{own}", project=tmp_path)
        assert caught.value.slug == "files-elsewhere"
        for one in (f"mlflow-artifacts:/1/{own}", f"http://{own}/{SERVED}/1/model", f"mlflow-artifacts://{own}/1"):
            assert find_place(client, one, tracking_uri=f"http://{own}/", project=tmp_path) == one
    assert [*seen, *asked] == []


class Server(BaseHTTPRequestHandler):
    """A server of MLflow's with one version, whose files are at another host."""

    elsewhere = ""

    def do_GET(self):
        if "mlflow-artifacts" in self.path:
            self.send_response(302)
            self.send_header("Location", self.elsewhere)
            self.end_headers()
            return
        known = {"name": "net", "version": "1", "creation_timestamp": 1, "last_updated_timestamp": 1, "status": "READY"}
        said = {"artifact_uri": f"mlflow-artifacts:/1/{known['name']}"} if "download-uri" in self.path else {}
        said = said or ({"model_version": known} if "model-versions/get" in self.path else {"registered_models": []})
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.attack(
    what="a file of a registry's server whose download leads to another host, for the token",
    who="registry",
    stopped_by="requests sends the token to the host that it was given for only",
)
def test_a_redirect_of_the_server_does_not_get_the_token(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", TOKEN)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    with serve() as (host, seen):
        handler = type("Redirecting", (Server,), {"elsewhere": f"http://{host}/file"})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(HoneError):
            MlflowRegistry(f"http://127.0.0.1:{server.server_port}").pull("models:/net/1", tmp_path / "pulled")
        server.shutdown()
        server.server_close()
    assert seen
    assert set(seen) == {None}


@pytest.mark.attack(
    what="a version whose files are a folder of the machine that pulls it, such as /usr",
    who="registry",
    stopped_by="a folder is copied only below the project, or where MLflow logged a model to an experiment's place",
)
@pytest.mark.parametrize("way", ["uri", "path", "link", "dots", "project", "experiment", "run"])
def test_a_folder_of_the_machine_is_not_copied(client, tmp_path, way):
    secret = tmp_path / "home"
    secret.mkdir()
    (secret / "id_ed25519").write_text("secret")
    project = tmp_path / "project"
    (project / "link").symlink_to(secret)
    experiment = client.create_experiment("evil", artifact_location=tmp_path.as_uri()) if way == "experiment" else ""
    sources = {
        "uri": secret.as_uri(),
        "path": str(secret),
        "link": f"{project.as_uri()}/link",
        "dots": f"{project.as_uri()}/../home",
        "project": "file:///",
        "experiment": secret.as_uri(),
    }
    if way == "run":
        run = client.create_run("0").info.run_id
        sources["run"] = f"runs:/{run}/../../../../../../../../../../{secret}"
    assert experiment != "0"
    assert pull(client, tmp_path, sources[way]) == "files-elsewhere"


@pytest.mark.attack(
    what="a version, or a winner's source, that is a device, a pipe, or larger than the disk",
    who="registry",
    stopped_by="regular files only, which are counted and fit on the disk before one is read",
)
@pytest.mark.parametrize(("what", "slug"), [("pipe", "model-corrupt"), ("large", "store-full")])
def test_what_has_no_end_is_not_copied(client, tmp_path, what, slug):
    folder = tmp_path / "project" / "model"
    folder.mkdir()
    if what == "pipe":
        os.mkfifo(folder / "model.onnx")
    else:
        with (folder / "model.onnx").open("wb") as stream:
            stream.truncate(1 << 43)
    assert pull(client, tmp_path, folder.as_uri()) == slug


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/dev", "/proc/self", "pipe"])
def test_a_path_that_is_no_model_is_not_read(tmp_path, path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HoneError) as caught:
        LocalRegistry(tmp_path).pull(path, tmp_path / "pulled")
    assert caught.value.slug in {"model-corrupt", "model-unknown"}


@pytest.mark.parametrize("way", ["project", "experiment", "default", "run", "published"])
def test_what_is_the_registrys_own_is_pulled(client, tmp_path, way, make_winner, prove):
    """Layouts of MLflow without a server."""
    import mlflow

    if way == "published":
        MlflowRegistry().publish(prove(make_winner()), name="own", tags=TAGS, alias="honed")
        assert MlflowRegistry().pull("models:/own@honed", tmp_path / "own").aliases == ("honed",)
        return
    if way == "project":
        folder = tmp_path / "project" / "models" / "net"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_text("model")
        assert pull(client, tmp_path, folder.as_uri()) == ""
        return
    place = None if way == "default" else (tmp_path / "elsewhere" / "artifacts with blanks").as_uri()
    experiment = client.create_experiment("mine", artifact_location=place)
    run = client.create_run(experiment).info
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n")
    client.log_artifacts(run.run_id, str(tmp_path / "model"), "model")
    source = f"runs:/{run.run_id}/model" if way == "run" else f"{run.artifact_uri}/model"
    assert pull(client, tmp_path, source) == ""
    assert (tmp_path / "pulled-1" / "MLmodel").is_file()
    assert mlflow.get_tracking_uri() == os.environ["MLFLOW_TRACKING_URI"]


def test_more_places_are_named_by_the_user(client, tmp_path, monkeypatch):
    (tmp_path / "share" / "net").mkdir(parents=True)
    (tmp_path / "share" / "net" / "model.onnx").write_text("model")
    source = (tmp_path / "share" / "net").as_uri()
    assert pull(client, tmp_path, source) == "files-elsewhere"
    monkeypatch.setenv("HONE_ARTIFACT_ROOTS", f"s3://mine {tmp_path}/share")
    assert pull(client, tmp_path, source) == ""
