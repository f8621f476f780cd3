"""Connections to MLflow: networks have limits, local files have none, and nobody else's settings are touched."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from proof import TAGS

import kedro_hone
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow import connection
from kedro_hone.adaptors.registries.mlflow.connection import check_sqlite, connect, find_probe
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry

SOURCE = Path(kedro_hone.__file__).parents[1]
HANG = 600
"""Seconds after which a test is taken to hang."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")


class Responder(BaseHTTPRequestHandler):
    """An MLflow server without any model."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Responder) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join(HANG)


@pytest.mark.nightly
def test_a_local_file_has_no_limit_and_a_network_has(tmp_path, server):
    new = f"sqlite:///{tmp_path}/new.db"  # MLflow makes its tables first
    client = connect(new, patience=0.0)
    client.create_registered_model("digits")
    assert [model.name for model in connect(new, patience=0.0).search_registered_models()] == ["digits"]
    with pytest.raises(HoneError) as caught:
        connect(server, patience=0.0)
    assert caught.value.slug == "registry-unreachable"
    assert connect(server, patience=HANG).search_registered_models() == []


def test_nothing_is_imported_while_the_clock_runs(server):
    code = """
import json, sys
from kedro_hone.adaptors.registries.mlflow.connection import find_probe
probe = find_probe(sys.argv[1])
before = set(sys.modules)
probe()
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, server],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    # What is left is some modules of the standard library, such as the codec of host names.
    heavy = ("mlflow", "requests", "urllib3", "sqlalchemy", "databricks", "google")
    assert [name for name in json.loads(done.stdout) if name.startswith(heavy)] == []


@pytest.mark.parametrize("driver", ["psycopg2", "nosuchdriver"])
def test_a_database_without_its_driver_says_so(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(HoneError) as caught:
        connect(f"postgresql+{driver}://me:word@127.0.0.1:9/mlflow")
    assert caught.value.slug == "registry-unreachable"
    assert driver in caught.value.why
    assert "word" not in str(caught.value)


def test_a_database_responds_when_it_can_be_connected_to(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_LOCAL", frozenset())  # no driver of a server's database is installed here
    monkeypatch.setattr(connection, "_DATABASES", frozenset({"sqlite"}))
    find_probe(f"sqlite:///{tmp_path}/new.db")()
    assert (tmp_path / "new.db").exists()
    (tmp_path / "folder").mkdir()
    with pytest.raises(Exception, match="unable to open database file"):
        find_probe(f"sqlite:///{tmp_path}/folder")()


def test_two_threads_with_two_registries_do_not_disturb_each_other(
    tmp_path, make_winner, prove, tracking_uri, monkeypatch
):
    import mlflow

    uris = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two")}
    winners = {name: prove(make_winner(), files=tmp_path / "sealed") for name in uris}
    seen = []
    together = threading.Barrier(len(uris))
    original = mlflow.MlflowClient.create_model_version

    def create(self, *args, **kwargs):
        together.wait(HANG)
        seen.append((os.environ.get("MLFLOW_TRACKING_URI"), mlflow.get_tracking_uri()))
        together.wait(HANG)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(mlflow.MlflowClient, "create_model_version", create)

    def publish(name):
        registry = MlflowRegistry(uris[name])
        return registry.publish(winners[name], name=name, tags=TAGS, alias="honed").uri

    with ThreadPoolExecutor(len(uris)) as pool:
        assert list(pool.map(publish, uris)) == ["models:/one/1", "models:/two/1"]
    assert seen == [(tracking_uri, tracking_uri)] * len(uris)
    for name, uri in uris.items():
        MlflowRegistry(uri).pull(f"models:/{name}@honed", tmp_path / f"pulled-{name}")
        assert (tmp_path / f"pulled-{name}" / "artifact" / "model.onnx").is_file()


def test_the_environment_is_left_as_it_was(tmp_path, make_winner, prove, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    import mlflow  # sets variables of its own

    before = dict(os.environ)
    registry = MlflowRegistry(f"sqlite:///{tmp_path}/other.db")
    done = registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias="honed")
    registry.pull(done.uri, tmp_path / "pulled")
    assert dict(os.environ) == before
    assert not mlflow.is_tracking_uri_set()


@pytest.mark.parametrize("value", [None, "true"])
def test_progress_bars_are_off_unless_somebody_wants_them(value):
    name = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
    environment = {key: text for key, text in os.environ.items() if key != name} | ({name: value} if value else {})
    code = f"""
import os
from kedro_hone.adaptors.registries.mlflow.connection import hide_progress
print(os.environ.get({name!r}))
with hide_progress():
    print(os.environ[{name!r}])
print(os.environ.get({name!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    assert done.stdout.split() == [str(value), value or "false", str(value)]


def test_a_locked_file_is_waited_for_and_then_explained(tmp_path):
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path, isolation_level=None, check_same_thread=False) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HoneError) as caught:
            check_sqlite(f"sqlite:///{path}", busy=0.1)
        assert caught.value.slug == "registry-unreachable"
        assert "database is locked" in caught.value.why
        assert str(path) in caught.value.what
        release = threading.Timer(1.0, other.execute, ["COMMIT"])
        release.start()
        check_sqlite(f"sqlite:///{path}", busy=HANG)
        release.join(HANG)
    other.close()


def test_a_file_that_is_another_database_is_explained(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(HoneError) as caught:
        connect(f"sqlite:///{path}")
    assert caught.value.slug == "registry-unreachable"


TRY = """
import sys
from kedro_hone.adaptors.registries.mlflow.connection import connect
from hone_runtime.errors import HoneError
try:
    connect(f"sqlite:///{sys.argv[1]}/mlflow.db")
except HoneError as error:
    print(error.slug, error.why)
"""


@needs_root
@pytest.mark.parametrize(
    ("options", "why"), [("size=64k", "database or disk is full"), ("size=64k,ro", "cannot be written")]
)
def test_a_disk_that_is_full_or_read_only_is_explained(tmp_path, options, why):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = f"mount -t tmpfs -o {options} tmpfs '{folder}'\nexec \"$@\""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mount, "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-W", "ignore", "-c", TRY, str(folder)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("registry-unreachable"), done.stdout
    assert why in done.stdout
