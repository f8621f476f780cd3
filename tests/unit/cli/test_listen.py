"""Where the recipes of a project push the images of winners."""

from __future__ import annotations

import json

import pytest

from kedro_hone.cli import listen
from kedro_hone.cli.listen import find_places
from kedro_hone.events.approval import ImagePlace


def make_publish(push, alias="honed", **more):
    return {"alias": alias, "export": ["image"], "image": {"push": push}, **more}


def make_rule(rule, models, **publish):
    return {"name": rule, "models": models, **({"recipe": {"publish": publish}} if publish else {})}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes a project's recipe and rules."""
    for name in ("base", "local", "prod"):
        (tmp_path / "conf" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(listen, "find_name", lambda target, source: target.name or f"name of {source}")

    def write(publish, *, rules=None, env="base", model="models:/digits/1"):
        recipe = {"model": {"uri": model}, "publish": publish, "program": {"name": "fidelity"}}
        (tmp_path / "conf" / "base" / "parameters.yml").write_text(json.dumps({"hone": recipe}))
        if rules is not None:
            (tmp_path / "conf" / env / "listen.yml").write_text(json.dumps({"rules": rules}))
        return tmp_path

    return write


def test_the_projects_own_recipe_is_for_the_model_of_its_source(project):
    place = ImagePlace(push="localhost:5000/d:1", alias="honed", models="name of models:/digits/1")
    assert find_places(project(make_publish("localhost:5000/d:1"))) == (place,)


@pytest.mark.parametrize(
    ("publish", "models"),
    [
        ({"name": "digits-[x]"}, "digits-[[]x]"),
        ({"uri": "models:/other"}, "other"),
        ({"uri": "hf://org/digits"}, "hf://org/digits"),
    ],
)
def test_a_named_target_is_the_model(project, publish, models):
    (place,) = find_places(project(make_publish("localhost:5000/d:1", **publish)))
    assert place.models == models


def test_without_an_image_there_is_no_place(project):
    assert find_places(project({}, rules=[make_rule("all", "*")])) == ()


def test_a_rule_is_for_its_models_with_its_own_place_or_the_projects(project):
    rules = [
        make_rule("fraud", "fraud-*", **make_publish("localhost:5000/f:1", "candidate")),
        make_rule("digits", "digits"),
        make_rule("text", "text", **make_publish("localhost:5000/t:1", name="short")),
    ]
    assert find_places(project(make_publish("localhost:5000/d:1"), rules=rules)) == (
        ImagePlace(push="localhost:5000/d:1", alias="honed", models="name of models:/digits/1"),
        ImagePlace(push="localhost:5000/f:1", alias="candidate", models="fraud-*"),
        ImagePlace(push="localhost:5000/d:1", alias="honed", models="digits"),
        ImagePlace(push="localhost:5000/t:1", alias="honed", models="short"),
    )


@pytest.mark.parametrize(("env", "count"), [(None, 1), ("local", 1), ("prod", 2)])
def test_rules_are_those_of_the_environment(project, capsys, env, count):
    rules = [make_rule("fraud", "fraud", **make_publish("localhost:5000/f:1"))]
    root = project(make_publish("localhost:5000/d:1"), rules=rules, env="prod")
    assert len(find_places(root, env)) == count
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("?", "The rules in listen.yml cannot be used."),
        ([make_rule("fraud", "fraud", alias="")], "The recipe of the rule 'fraud' cannot be used."),
    ],
)
def test_what_cannot_be_used_is_printed_and_loses_no_other_place(project, capsys, rules, reason):
    root = project(make_publish("localhost:5000/d:1"), rules=rules)
    assert [one.push for one in find_places(root)] == ["localhost:5000/d:1"]
    assert reason in capsys.readouterr().err
