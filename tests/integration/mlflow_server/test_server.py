"""MLflow's own server: what is large goes through the host's memory in pieces, and a freeze ends a publication."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import mlflow
import pytest
from mlflow_store import WARNINGS, make_winner, onnx_model, prove
from proof import TAGS

from hone_runtime.errors import HoneError
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.mlflow.registry import EXPERIMENT, MlflowRegistry

__all__ = ["make_winner", "onnx_model", "prove"]
pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
HERE = Path(__file__).parent
TESTS = HERE.parents[1]
SIZE = 300 << 20
MORE = 64 << 20
"""What 300 MB may take of memory: pieces of files, and what Python does not give back."""
HANG = 600


@pytest.mark.nightly
def test_what_is_large_does_not_go_through_memory_whole(uri, tmp_path):
    environment = os.environ | {
        "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}",
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "HONE_HOME": str(tmp_path / "home"),
    }
    command = [sys.executable, "-W", "ignore", HERE / "move_large.py", tmp_path, str(SIZE)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout.splitlines()[-1])
    assert peaks["large"] - peaks["small"] < MORE, peaks


@contextmanager
def open_proxy(uri: str, *, freezes_after: int):
    """Stand between a client and the server; after so many bytes of the client's, read and send nothing any more."""
    target, left, open_ = urlsplit(uri), [freezes_after], []

    def forward(source: socket.socket, sink: socket.socket, *, counted: bool) -> None:
        with suppress(OSError):
            while left[0] > 0 and (data := source.recv(16384)):
                left[0] -= len(data) if counted else 0
                if left[0] > 0:
                    sink.sendall(data)
            if left[0] > 0:
                sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((target.hostname, target.port))
                open_.extend((client, server))
                for pair, counted in (((client, server), True), ((server, client), False)):
                    threading.Thread(target=forward, args=pair, kwargs={"counted": counted}, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    for one in open_:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.mark.nightly
def test_a_registry_that_freezes_in_the_middle_of_an_upload(uri, make_winner, prove, tmp_path, monkeypatch):
    for name, value in {"TIMEOUT": "2", "MAX_RETRIES": "2", "BACKOFF_FACTOR": "1"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    artifact = make_winner()
    with (tmp_path / "sealed" / "weights.bin").open("wb") as stream:
        stream.truncate(64 << 20)  # far more than the system's buffers take
    digest = Manifest.measure(tmp_path / "sealed", artifact.manifest()).digest
    winner = prove(artifact.model_copy(update={"digest": digest}))
    arguments = {"name": "frozen", "tags": TAGS, "alias": "honed"}
    with open_proxy(uri, freezes_after=8 << 20) as frozen:
        start = time.monotonic()
        with pytest.raises(HoneError) as caught:
            MlflowRegistry(frozen).publish(winner, **arguments)
        took = time.monotonic() - start
    assert caught.value.slug == "registry-unreachable"
    assert "timed out" in caught.value.why
    assert "***" not in caught.value.what
    assert took < HANG / 4
    client = mlflow.MlflowClient(uri)
    assert client.search_model_versions("name='frozen'") == []  # nobody sees half of it
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    (left,) = client.search_runs([experiment], "tags.`hone.state` = 'publishing'")
    client.set_tag(left.info.run_id, "hone.publisher", "")  # as if that process had ended
    done = MlflowRegistry(uri).publish(winner, **arguments)
    assert (done.uri, done.alias) == ("models:/frozen/1", "honed")
    assert client.search_runs([experiment], "tags.`hone.state` = 'publishing'") == []


@pytest.mark.parametrize("way", ["published", "run", "logged model", "served"])
def test_what_the_server_keeps_is_pulled(uri, tmp_path, monkeypatch, make_winner, prove, way):  # noqa: PLR0917
    """Whatever a version names as its source that is the server's own."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    registry, client, name = MlflowRegistry(), mlflow.MlflowClient(), f"kept-{way.replace(' ', '-')}"
    if way == "published":
        winner = replace(prove(make_winner()), description="**3.6 times as fast**")
        registry.publish(winner, name=name, tags=TAGS, alias="honed")
        call = f'Load it with `kedro_hone.load("models:/{name}@honed")`.'
        assert client.get_model_version(name, "1").description == f"{winner.description}\n\n{call}\n"
        assert registry.pull(f"models:/{name}@honed", tmp_path / "pulled").aliases == ("honed",)
        return
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n")
    run = client.create_run("0").info
    client.create_registered_model(name)
    if way == "logged model":
        model = client.create_logged_model("0", name="net", source_run_id=run.run_id)
        client.log_model_artifacts(model.model_id, str(tmp_path / "model"))
        client.finalize_logged_model(model.model_id, "READY")
        made = client.create_model_version(name, source=model.model_uri, model_id=model.model_id)
        own = model.model_uri
    else:
        client.log_artifacts(run.run_id, str(tmp_path / "model"), "model")
        served = f"{run.artifact_uri}/model"
        source = f"runs:/{run.run_id}/model" if way == "run" else served
        made = client.create_model_version(name, source=source, run_id=run.run_id)
        own = f"runs:/{run.run_id}/model"
    version = f"models:/{name}/{made.version}"
    for number, (place, named) in enumerate(
        ((version, name), (own, ""), (f"{version}/MLmodel", ""), (f"{own}/MLmodel", ""))
    ):
        assert registry.pull(place, tmp_path / f"pulled{number}").name == named
        assert [path.name for path in (tmp_path / f"pulled{number}").glob("ML*")] == ["MLmodel"]
