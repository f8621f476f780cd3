from __future__ import annotations

import json
import secrets

import pytest
from github_server import DENIED, serve_github

from hone_runtime.contract.registry import Publication
from hone_runtime.errors import HoneError
from kedro_hone.cli.listen import find_pushes
from kedro_hone.events import jobs
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


def make_publish(push, alias="honed"):
    return {"alias": alias, "export": ["image"], "image": {"push": push}}


def make_rules(*pushes):
    names = ("staging", "production")
    return {
        "rules": [
            {"name": name, "models": "digits", "recipe": {"publish": make_publish(push, name)}}
            for name, push in zip(names, pushes, strict=False)
        ]
    }


@pytest.mark.parametrize(
    ("publish", "rules", "expected"),
    [
        (make_publish("localhost:5000/d:1"), None, {"honed": ["localhost:5000/d:1"]}),
        ({}, None, {}),
        (
            {},
            make_rules("localhost:5000/d:s", "localhost:5000/d:p"),
            {"staging": ["localhost:5000/d:s"], "production": ["localhost:5000/d:p"]},
        ),
        (
            make_publish("localhost:5000/d:1", "staging"),
            make_rules("localhost:5000/d:s"),
            {"staging": ["localhost:5000/d:1", "localhost:5000/d:s"]},
        ),
        (make_publish("localhost:5000/d:1"), {"rules": "?"}, {"honed": ["localhost:5000/d:1"]}),
    ],
)
def test_an_approval_writes_the_tag_where_the_recipes_push_images(monkeypatch, tmp_path, publish, rules, expected):
    for name in ("base", "local"):
        (tmp_path / "conf" / name).mkdir(parents=True)
    recipe = {"hone": {"model": {"uri": "models:/digits/1"}, "publish": publish, "program": {"name": "fidelity"}}}
    (tmp_path / "conf" / "base" / "parameters.yml").write_text(json.dumps(recipe))
    if rules:
        (tmp_path / "conf" / "base" / "listen.yml").write_text(json.dumps(rules))
    given = {"id": 1, "uri": "models:/digits/2", "task": {"kind": "approve", "alias": "honed"}, "changed": 0.0}
    (tmp_path / "job.json").write_text(json.dumps(given))
    found = []

    def approve(uri, **asked):
        found.append((uri, asked["alias"], asked["pushes"]))
        return Publication(uri=uri, version="2", alias="honed")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "approve_winner", approve)
    with pytest.raises(SystemExit):
        run_job(tmp_path, project=tmp_path, token="", find_pushes=find_pushes)
    assert found == [("models:/digits/2", "honed", expected)]


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
