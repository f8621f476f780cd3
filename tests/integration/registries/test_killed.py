"""A publication that is killed leaves nothing half: the next one completes or removes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from proof import TAGS

import kedro_hone
from kedro_hone.adaptors.registries.mlflow.registry import EXPERIMENT, MlflowRegistry

MOMENTS = [
    ("create_logged_model", "before"),
    ("log_model_artifacts", "before"),
    ("log_model_artifacts", "after"),
    ("create_model_version", "before"),
    ("create_model_version", "after"),
    ("set_model_version_tag", "after"),
    ("set_registered_model_alias", "after"),
    ("delete_model_version_tag", "after"),
]
"""The calls of a publication in their order, and when it is killed."""
EACH_TIME = [MOMENTS[0], ("create_model_version", "after"), ("set_registered_model_alias", "after")]
"""Those of them after which another publication finds something else; the rest of them is tried at night."""


@pytest.fixture(scope="module")
def publishers():
    """A process that has imported MLflow, and forks for each publication that is to be killed."""
    environment = os.environ | {
        "PYTHONPATH": f"{Path(kedro_hone.__file__).parents[1]}:{Path(__file__).parents[2]}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-W", "ignore", Path(__file__).with_name("publish_and_die.py")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def kill(publishers, tracking_uri):
    """Return a function that kills the publication of a winner."""

    def publish_and_die(winner, method, moment):
        job = {
            "artifact": winner.artifact.model_dump(mode="json"),
            "folder": str(winner.folder.parent),
            "tracking_uri": tracking_uri,
            "method": method,
            "moment": moment,
            "arguments": {"name": "digits", "tags": TAGS, "alias": "honed", "metrics": {"speedup": 2.0}},
        }
        publishers.stdin.write(json.dumps(job) + "\n")
        publishers.stdin.flush()
        assert int(publishers.stdout.readline()) == -signal.SIGKILL

    return publish_and_die


def publish(winner):
    return MlflowRegistry().publish(winner, name="digits", tags=TAGS, alias="honed", metrics={"speedup": 2.0})


def check_whole(versions, alias):
    """Check that there are these versions, all finished, each with a model and a run, and nothing else."""
    import mlflow

    client = mlflow.MlflowClient()
    found = sorted(client.search_model_versions("name='digits'"), key=lambda version: int(version.version))
    assert [str(version.version) for version in found] == versions
    assert all(version.tags["hone.state"] == "finished" for version in found)
    assert not any("hone.pending_alias" in version.tags for version in found)
    assert str(client.get_model_version_by_alias("digits", "honed").version) == alias
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    models = client.search_logged_models([experiment])
    assert {model.artifact_location for model in models} == {version.source for version in found}
    assert all(model.status == "READY" for model in models)
    runs = client.search_runs([experiment])
    assert {run.info.run_id for run in runs} == {version.run_id for version in found}
    assert {run.data.tags["hone.state"] for run in runs} == {"finished"}


@pytest.mark.attack(
    what="SIGKILL at any moment of a publication",
    who="nobody",
    stopped_by="the alias is moved last; the next run completes the version",
)
@pytest.mark.parametrize(("method", "moment"), MOMENTS)
def test_the_same_publication_again_completes_it(make_winner, prove, kill, method, moment):
    winner = make_winner()
    kill(prove(winner), method, moment)
    assert publish(prove(winner)).version == "1"
    check_whole(["1"], "1")


@pytest.mark.parametrize(
    ("method", "moment"),
    [one if one in EACH_TIME else pytest.param(*one, marks=pytest.mark.nightly) for one in MOMENTS],
)
def test_another_publication_removes_it(make_winner, prove, kill, method, moment):
    winner = make_winner()
    kill(prove(winner), method, moment)
    version = publish(prove(winner, "2")).version
    # Once the alias points to it, everybody may have seen it: it stays.
    if method in {"set_registered_model_alias", "delete_model_version_tag"}:
        check_whole(["1", "2"], "2")
    else:
        check_whole([version], version)


def test_what_seems_to_be_at_work_is_left_alone_until_it_is_dead(make_winner, prove, kill):
    winner = make_winner()
    kill(prove(winner), "create_model_version", "after")
    import mlflow

    client = mlflow.MlflowClient()
    client.set_model_version_tag("digits", "1", "hone.publisher", "elsewhere:1:1")
    assert publish(prove(winner, "2")).version == "2"
    assert client.get_model_version("digits", "1").tags["hone.state"] == "publishing"
    client.delete_model_version_tag("digits", "1", "hone.publisher")
    assert publish(prove(winner, "2")).version == "2"
    check_whole(["2"], "2")
