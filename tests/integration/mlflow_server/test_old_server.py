"""A server of MLflow 2.20, asked by the client of today: it has versions and aliases, and no logged models."""

from __future__ import annotations

from dataclasses import replace

import mlflow
import numpy as np
import onnx
import pytest
import yaml
from mlflow_store import WARNINGS, make_winner, onnx_model, prove
from proof import TAGS

import kedro_hone
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow import publication
from kedro_hone.adaptors.registries.mlflow.registry import EXPERIMENT, MlflowRegistry
from kedro_hone.adaptors.registries.mlflow.servers import read_server

__all__ = ["make_winner", "onnx_model", "prove"]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(warning) for warning in WARNINGS),
]
X = np.ones((2, 4), np.float32)


@pytest.fixture
def client(old_uri, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", old_uri)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return mlflow.MlflowClient(old_uri)


@pytest.fixture
def register(client, onnx_model, tmp_path):
    """Return a function that registers a model as a client of that time does, and returns its run."""

    def register(name):
        folder = tmp_path / "logged"
        folder.mkdir(exist_ok=True)
        onnx.save(onnx_model, folder / "model.onnx")
        (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": {"onnx": {"data": "model.onnx"}}}))
        run = client.create_run("0").info
        client.log_artifacts(run.run_id, str(folder), "model")
        if not client.search_model_versions(f"name='{name}'"):
            client.create_registered_model(name)
        client.create_model_version(name, f"{run.artifact_uri}/model", run.run_id)
        return run.run_id

    return register


def catch(call):
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def test_versions_aliases_and_runs(client, register, tmp_path, old_uri):
    run = register("net")
    assert read_server(old_uri).text == "2.20.3"
    client.set_registered_model_alias("net", "champion", "1")
    registry = MlflowRegistry()
    assert registry.resolve("models:/net@champion").uri == "models:/net/1"
    for number, uri in enumerate(("models:/net/latest", f"runs:/{run}/model", "models:/net/1/model.onnx")):
        registry.pull(uri, tmp_path / f"{number}")
        assert (tmp_path / f"{number}" / "model.onnx").is_file()
    error = catch(lambda: registry.resolve(f"models:/m-{'0' * 32}"))
    assert (error.slug, error.why) == (
        "model-unknown",
        "The server is MLflow 2.20.3, and logged models came with 3.0.",
    )
    assert "net" in catch(lambda: registry.resolve("models:/nets/1")).why


def test_the_sweep_sees_what_comes(client, register):
    register("swept")
    registry = MlflowRegistry()
    infos, cursor, _ = registry.versions_since(None)
    assert "models:/swept/1" in [info.uri for info in infos]
    register("swept")
    infos, cursor, _ = registry.versions_since(cursor)
    assert [info.uri for info in infos] == ["models:/swept/2"]
    assert registry.versions_since(cursor)[0] == ()


def test_a_winner_is_published_and_loaded(client, register, make_winner, prove):
    register("fast")
    registry, winner = MlflowRegistry(), replace(prove(make_winner()), description="**3.6 times as fast**")
    told = {"name": "fast", "tags": TAGS, "alias": "honed", "metrics": {"accuracy": 0.5}}
    done = registry.publish(winner, **told)
    assert (done.uri, done.alias) == ("models:/fast/2", "honed")
    version = client.get_model_version("fast", "2")
    call = 'Load it with `kedro_hone.load("models:/fast@honed")`.'
    assert version.description == f"**3.6 times as fast**\n\n{call}\n"
    assert client.get_run(version.run_id).data.metrics == {"accuracy": 0.5}
    assert registry.publish(winner, **told).version == "2"
    learner = kedro_hone.load("models:/fast@honed")
    np.testing.assert_allclose(learner(X), kedro_hone.load("models:/fast/2")(X))
    registry.move_alias("models:/fast/2", "approved")
    assert registry.list_aliases("fast") == {"honed": "2", "approved": "2"}


def test_what_a_killed_publication_left_is_removed(client, register, make_winner, prove, monkeypatch):
    register("killed")
    registry, winner = MlflowRegistry(), prove(make_winner())
    told = {"name": "killed", "tags": TAGS, "alias": "honed"}

    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(mlflow.MlflowClient, "create_model_version", die)
        with pytest.raises(KeyboardInterrupt):
            registry.publish(winner, **told)
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    wanted = "tags.`hone.state` = 'publishing'"
    (left,) = client.search_runs([experiment], wanted)
    client.set_tag(left.info.run_id, publication._PUBLISHER, "")  # as if that process had ended
    assert registry.publish(winner, **told).version == "2"
    assert client.search_runs([experiment], wanted) == []
