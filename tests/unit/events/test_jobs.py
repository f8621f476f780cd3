from __future__ import annotations

import json
import secrets

import pytest
from github_server import DENIED, serve_github

from hone_runtime.contract.registry import Publication
from hone_runtime.errors import HoneError
from kedro_hone.events import jobs
from kedro_hone.events.approval import ImagePlace
from kedro_hone.events.job import HandOver, Optimize
from kedro_hone.events.jobs import hand_over, list_options, run_job

TOKEN = secrets.token_hex(8)
TASK = HandOver(repository="o/r", event_type="model-version")


def test_the_options_of_a_run():
    task = Optimize(recipe={"threads": 1, "model": {"module": "shop:Net"}}, env="prod")
    assert list_options("models:/digits/1", task) == {
        "params": {"hone": {"threads": 1, "model": {"module": "shop:Net", "uri": "models:/digits/1"}}},
        "env": "prod",
    }
    assert list_options("a; rm -rf /", Optimize()) == {"params": {"hone": {"model": {"uri": "a; rm -rf /"}}}}


def test_an_approval_gets_the_places_of_the_project(monkeypatch, tmp_path):
    given = {"id": 1, "uri": "models:/digits/2", "task": {"kind": "approve", "alias": "honed"}, "changed": 0.0}
    (tmp_path / "job.json").write_text(json.dumps(given))
    places, found = (ImagePlace(push="localhost:5000/d:1", alias="honed", models="digits"),), []

    def approve(uri, **asked):
        found.append((uri, asked["alias"], asked["places"]))
        return Publication(uri=uri, version="2", alias="honed")

    monkeypatch.setattr(jobs, "approve_winner", approve)
    with pytest.raises(SystemExit):
        run_job(tmp_path, project=tmp_path, token="", find_places=lambda root: places if root == tmp_path else ())
    assert found == [("models:/digits/2", "honed", places)]


def test_an_event_is_handed_over_to_the_workflows_of_a_repository(monkeypatch):
    with serve_github() as github:
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        hand_over("models:/digits/1", TASK.model_copy(update={"recipe": {"threads": 1}}), token=TOKEN, job="7")
    (body,) = github.dispatches
    assert body["event_type"] == "model-version"
    assert body["client_payload"] == {
        "model": "models:/digits/1",
        "recipe": json.dumps({"threads": 1}),
        "env": "",
        "job": "7",
    }


@pytest.mark.parametrize(
    ("answer", "slug"),
    [
        ((401, {"message": "Bad credentials"}), "registry-denied"),
        ((404, {"message": "Not Found"}), "registry-denied"),
        ((422, {"message": "no"}), "registry-denied"),
        (DENIED, "registry-denied"),
        ((429, {"message": "Too many requests"}), "registry-limited"),
        ((403, {"message": "You have exceeded a secondary rate limit"}), "registry-limited"),
        ((502, {"message": "Bad Gateway"}), "registry-unreachable"),
    ],
)
def test_what_github_refuses_is_explained(monkeypatch, answer, slug):
    with serve_github() as github:
        github.refusal = answer
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        with pytest.raises(HoneError) as raised:
            hand_over("models:/digits/1", TASK, token=TOKEN, job="7")
    assert raised.value.slug == slug
    assert TOKEN not in str(raised.value)


def test_nobody_there_is_explained(monkeypatch):
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    with pytest.raises(HoneError) as raised:
        hand_over("models:/digits/1", TASK, token=TOKEN, job="7")
    assert raised.value.slug == "registry-unreachable"


def test_a_recipe_that_github_does_not_take_is_refused_here():
    with pytest.raises(HoneError) as raised:
        hand_over("models:/digits/1", TASK.model_copy(update={"recipe": {"x": "y" * 70_000}}), token=TOKEN, job="7")
    assert raised.value.slug == "rules-invalid"
