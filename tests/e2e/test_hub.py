"""The whole line from the Hub and back, by the command line, against a Hub on the loopback device."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hub_client import list_variables
from hub_server import Fault, Token, serve
from mlflow_store import WARNINGS
from small_project import SOURCE

LOAD = """
import json
import sys
import numpy as np
import shop.settings  # the runtime is the project's own
import kedro_hone
print(json.dumps(np.shape(kedro_hone.load(sys.argv[1])(np.ones((8, 4), np.float32)))))
"""


@pytest.fixture
def hub(tmp_path):
    with serve(tmp_path / "hub") as running:
        running.tokens["hf_writer"] = Token("org")
        yield running


@pytest.fixture
def project(project, hub, tmp_path):
    folder = project.root / "models" / "matrix"
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    hub.add("org/matrix", {**files, "README.md": b"# A matrix\n"})
    project.environment |= list_variables(hub, tmp_path) | {"HONE_HOME": str(tmp_path / "home")}
    off = {name: {"enabled": False} for name in ("shop.slow", "shop.convert")}
    project.set(model={"uri": "hf://org/matrix@main"}, adaptors=off)
    return project


def read_publication(project):
    return json.loads((project.work / "latest" / "publication.json").read_text())


def load(project, uri):
    environment = project.variables
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{project.root / 'src'}:{SOURCE}"
    done = subprocess.run(
        [sys.executable, "-c", LOAD, uri],
        cwd=project.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_from_the_hub_to_a_commit_that_is_loaded_again(project, hub, tmp_path):
    repository = hub.repositories["org/matrix"]
    source = repository.head
    project.run()
    assert project.evidence["source"]["uri"] == f"hf://org/matrix@{source}"
    uri = f"hf://org/matrix@{repository.head}"
    assert read_publication(project) == {
        "uri": uri,
        "version": repository.head,
        "alias": "honed",
        "note": "",
        "awaits": "",
        "signer": "",
    }
    assert repository.commits[repository.head].parent == source
    card = repository.files["README.md"].read().decode()
    assert card.count("# A matrix\n") == 1
    assert "| latency, eight |" in card
    assert "model-index:" in card
    assert load(project, "hf://org/matrix@honed") == [8, 3]
    verified = project.call("hone", "verify", "hf://org/matrix@honed")
    assert verified.code == 0, verified.output
    assert "checked: complete, proves the artifact, and is what hone.publication was made from" in verified.output
    blobs = {path.stat().st_ino for path in (tmp_path / "hf").rglob("blobs/*")}
    kept = {path.stat().st_ino for path in project.store.root.rglob("*.npz")}
    assert blobs & kept  # the cache and the store share the source's weights on the disk
    token = project.environment["HF_TOKEN"].encode()
    files = [path for root in (project.root, tmp_path) for path in root.rglob("*") if path.is_file()]
    assert len(files) > 100
    assert [path for path in files if token in path.read_bytes()] == []
    count = len(repository.commits)
    project.run("--pipelines", "publish")
    assert len(repository.commits) == count
    # The branch has the winner now, and what is optimized is what the author has there.
    project.run()
    assert project.evidence["source"]["uri"] == f"hf://org/matrix@{source}"


@pytest.mark.nightly
@pytest.mark.filterwarnings(*WARNINGS)
def test_what_was_measured_on_a_busy_machine_waits_in_every_registry(project, hub):
    """In MLflow as a version without the alias; on a branch, where the newest commit is what is loaded, not at all."""
    from mlflow import MlflowClient

    project.environment["SHOP_LOAD"] = "0.6"
    project.set(publish={"uri": "models:/fast"})
    project.run()
    client = MlflowClient(f"sqlite:///{project.root}/data/mlflow.db")
    waiting = client.get_model_version("fast", "1")
    assert (waiting.tags["hone.held"], waiting.aliases) == ("honed", [])
    assert "confirms it on a quiet machine" in read_publication(project)["note"]
    refused = project.call("hone", "approve", "models:/fast/1")
    assert "waits for a quiet machine" in " ".join(refused.output.split())
    repository = hub.repositories["org/matrix"]
    for publish in ({"uri": None}, {"uri": None, "pull_request": True}):
        project.set(publish=publish)
        before = len(repository.commits)
        done = project.run("--from-nodes", "gate.gate")
        assert "nothing is published: other processes took 0.6" in " ".join(done.output.split())
        assert (len(repository.commits), [ref for ref in repository.refs if "pr" in ref]) == (before, [])

    del project.environment["SHOP_LOAD"]
    project.set(publish={"uri": "models:/fast", "pull_request": False})
    project.run("--from-nodes", "confirm")
    assert client.get_registered_model("fast").aliases == {"honed": 2}
    assert "hone.held" not in client.get_model_version("fast", "2").tags


@pytest.mark.nightly
def test_from_the_hub_to_a_pull_request(project, hub):
    repository = hub.repositories["org/matrix"]
    source = repository.head
    project.set(publish={"pull_request": True})
    done = project.run()
    assert repository.head == source
    assert read_publication(project)["uri"] == f"hf://org/matrix@{repository.refs['refs/pr/1']}"
    assert "/org/matrix/discussions/1" in done.output
    assert "/org/matrix/discussions/1" in (project.work / "latest" / "report.md").read_text()
    assert load(project, "hf://org/matrix@refs/pr/1") == [8, 3]


@pytest.mark.nightly
@pytest.mark.filterwarnings(*WARNINGS)
def test_from_the_hub_to_mlflow_and_from_mlflow_to_the_hub(project, hub):
    from mlflow import MlflowClient

    project.set(publish={"uri": "models:/fast"})
    project.run()
    assert read_publication(project)["uri"] == "models:/fast/1"
    assert len(hub.repositories["org/matrix"].commits) == 2
    client = MlflowClient(f"sqlite:///{project.root}/data/mlflow.db")
    assert client.get_model_version("fast", "1").tags["hone.source"] == project.evidence["source"]["uri"]
    client.create_registered_model("matrix")
    client.create_model_version("matrix", source=(project.root / "models" / "matrix").as_uri())
    project.set(model={"uri": "models:/matrix/1"}, publish={"uri": "hf://org/fast"})
    project.run()
    repository = hub.repositories["org/fast"]
    assert repository.private
    assert read_publication(project)["uri"] == f"hf://org/fast@{repository.head}"
    assert json.loads(repository.files["hone.json"].read())["tags"]["hone.source"] == "models:/matrix/1"
    assert load(project, "hf://org/fast") == [8, 3]


@pytest.mark.nightly
def test_a_model_that_moves_on_in_the_last_moment_is_exit_3(project, hub):
    repository = hub.repositories["org/matrix"]
    hub.faults = [Fault("POST .*/commit/", call=lambda: repository.commit({"notes.txt": b"new"}), times=1)]
    error = project.run(code=3)
    assert "hone explain registry-moved" in error.output
    assert "hone.json" not in repository.files


@pytest.mark.parametrize(
    ("model", "publish", "says"),
    [
        ("hf://org/matrix", {"uri": "hf://org/fast", "name": "org/fast"}, "names two target models"),
        ("hf://org/matrix", {"name": "fast"}, "<owner>/<name>"),
        ("hf://org/matrix", {"uri": "models:/fast", "pull_request": True}, "has no pull requests"),
        ("hf://org/nothing", {}, "has no model 'org/nothing'"),
        ("hf://org/matrix@v7", {}, "has no revision 'v7'"),
    ],
)
def test_a_recipe_that_cannot_be_is_exit_3(project, model, publish, says):
    project.set(model={"uri": model}, publish=publish)
    assert says in project.run(code=3).output


@pytest.mark.nightly
def test_offline_everything_but_publishing_works_from_the_cache(project, hub):
    project.run("--to-nodes", "pull.pull")
    hub.requests.clear()
    project.environment["HF_HUB_OFFLINE"] = "1"
    project.run("--pipelines", "assess")
    assert not hub.requests
    assert "hone explain registry-offline" in project.run("--pipelines", "publish", code=3).output


def test_a_hub_that_denies_is_exit_3(project):
    project.environment["HF_TOKEN"] = "hf_nobody"  # noqa: S105 - it is none
    assert "hone explain registry-denied" in project.run(code=3).output
