"""From a version that somebody registers on MLflow's own server to a faster one, with nobody touching anything."""

from __future__ import annotations

import shutil
import signal
import time

import mlflow
import pytest
from listener import SECRETS, find_secrets, start_listener, write_rules
from mlflow_store import WARNINGS
from small_project import HANG, copy_project, write_source

pytestmark = [
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(warning) for warning in WARNINGS),
]
RULES = (
    {"name": "matrix", "models": "matrix", "events": ["version_created", "alias_set:candidate"]},
    {"name": "careful", "models": "careful", "recipe": {"publish": {"approval": "always"}}},
)


@pytest.fixture
def client(uri):
    return mlflow.MlflowClient(uri)


@pytest.fixture
def project(template, tmp_path, uri):
    project = copy_project(template, tmp_path)
    project.environment |= {"MLFLOW_TRACKING_URI": uri}
    write_rules(project, *RULES)
    return project


def register(client, folder, name, **options):
    """Register a model as training leaves it, and return its version."""
    shutil.rmtree(folder, ignore_errors=True)
    write_source(folder, **options)
    if not client.search_registered_models(f"name='{name}'"):
        client.create_registered_model(name)
    run = client.create_run(client.create_experiment(f"{name}-{time.monotonic_ns()}")).info.run_id
    client.log_artifacts(run, str(folder), "model")
    return client.create_model_version(name, f"runs:/{run}/model", run_id=run).version


def wait_until(condition):
    deadline = time.monotonic() + HANG
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


@pytest.mark.nightly
def test_a_version_becomes_a_faster_one_by_itself(client, project, tmp_path):
    service = start_listener(project)
    names = {
        "events": ["model_version.created", "model_version_alias.created", "model_version_tag.set"],
        "secret": SECRETS["HONE_MLFLOW_SECRET"],
    }
    hook = client.create_webhook(name="hone", url=f"{service.url}/webhooks/mlflow", **names)
    try:
        assert register(client, tmp_path / "model", "matrix") == "1"
        job = service.wait_for("models:/matrix/1", "done")
        assert (job["verdict"], job["published"], job["attempts"]) == ("PASS", "models:/matrix/2", 1)
        assert client.get_model_version_by_alias("matrix", "honed").version == "2"
        assert client.get_model_version("matrix", "2").tags["hone.source"] == "models:/matrix/1"

        # The service dies while the next one runs, and another one finishes it. Nothing is run twice.
        client.set_registered_model_alias("matrix", "candidate", "1")  # says nothing new
        assert register(client, tmp_path / "model", "matrix", slow=2.5) == "3"
        service.wait_for("models:/matrix/3", "running")
        service.end(signal.SIGKILL)
        client.update_webhook(hook.webhook_id, status="DISABLED")
        service = start_listener(project, number=2)
        job = service.wait_for("models:/matrix/3", "done")
        assert (job["published"], job["attempts"]) == ("models:/matrix/4", 2)
        assert client.get_model_version_by_alias("matrix", "honed").version == "4"

        # With webhooks off the sweep finds what is new; this winner waits until somebody sets a tag.
        assert register(client, tmp_path / "model", "careful") == "1"
        assert service.wait_for("models:/careful/1", "done")["published"] == "models:/careful/2"
        assert "honed" not in client.get_registered_model("careful").aliases
        client.update_webhook(hook.webhook_id, url=f"{service.url}/webhooks/mlflow", status="ACTIVE")
        client.set_model_version_tag("careful", "2", "hone.approved", "true")
        wait_until(lambda: client.get_registered_model("careful").aliases.get("honed") == "2")

        # No event starts a winner's optimization, whoever moves its aliases; nor what ran before the restart once more.
        client.set_registered_model_alias("matrix", "candidate", "3")
        client.set_registered_model_alias("matrix", "candidate", "2")
        assert "is a winner of kedro-hone" in service.wait_for("models:/matrix/2", "skipped")["reason"]

        swept = sum(line["event"] == "sweep-found" for line in service.read_log())
        assert swept == 1
        sources = sorted(job["uri"] for job in service.jobs if job["state"] == "done" and job["rule"] != "approval")
        assert sources == ["models:/careful/1", "models:/matrix/1", "models:/matrix/3"]
    finally:
        client.delete_webhook(hook.webhook_id)
        code = service.end()
    assert code == 0
    assert find_secrets(tmp_path) == []
    project.wait_for_silence()
