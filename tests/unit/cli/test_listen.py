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
        ImagePlace(push="localhost:5000/d:1", alias="honed", models="digits", others=("fraud-*",)),
        ImagePlace(push="localhost:5000/t:1", alias="honed", models="short"),
    )


@pytest.mark.parametrize(
    ("first", "events", "others"),
    [
        ("fraud-special", ["version_created"], ("fraud-special",)),
        ("fraud-special", ["alias_set:x"], ()),
        ("fraud-special", ["version_created", "alias_set:x"], ("fraud-special",)),
    ],
)
def test_what_an_earlier_rule_takes_is_not_for_a_later_one(project, first, events, others):
    rules = [
        {**make_rule("special", first, **make_publish("localhost:5000/a:1")), "events": events},
        make_rule("rest", "fraud-*", **make_publish("localhost:5000/b:1")),
    ]
    assert find_places(project({}, rules=rules))[1].others == others


def test_an_event_without_a_name_takes_those_with_one(project):
    """The image of a model that the first rule takes was also written to the second rule's tag."""
    rules = [
        {**make_rule("special", "fraud-special", **make_publish("localhost:5000/a:1")), "events": ["alias_set"]},
        {**make_rule("rest", "fraud-*", **make_publish("localhost:5000/b:1")), "events": ["alias_set:prod"]},
    ]
    assert find_places(project({}, rules=rules))[1].others == ("fraud-special",)
    assert find_places(project({}, rules=rules[::-1]))[1].others == ()


def test_what_is_not_published_here_has_no_place(project):
    off = make_rule("off", "off", **make_publish("localhost:5000/a:1", enabled=False))
    away = make_rule("away", "away", **make_publish("localhost:5000/b:1"))
    away["dispatch"] = {"repository": "o/r", "event_type": "e"}
    root = project({}, rules=[off, away])
    config = json.loads((root / "conf" / "base" / "listen.yml").read_text()) | {"secrets": {"github": "HONE_GH_TOKEN"}}
    (root / "conf" / "base" / "listen.yml").write_text(json.dumps(config))
    assert find_places(root) == ()


@pytest.mark.parametrize(("env", "pushes"), [(None, ["d:1"]), ("local", ["d:1"]), ("prod", ["p:1", "f:1"])])
def test_recipe_and_rules_are_those_of_the_environment(project, monkeypatch, capsys, env, pushes):
    rules = [make_rule("fraud", "fraud", **make_publish("localhost:5000/f:1"))]
    root = project(make_publish("localhost:5000/d:1"), rules=rules, env="prod")
    own = {"model": {"uri": "models:/fraud/1"}, "publish": make_publish("localhost:5000/p:1")}
    own |= {"program": {"name": "fidelity"}}
    (root / "conf" / "prod" / "parameters.yml").write_text(json.dumps({"hone": own}))
    if env:
        monkeypatch.setenv("KEDRO_ENV", env)
    found = find_places(root)
    assert [one.push for one in found] == [f"localhost:5000/{push}" for push in pushes]
    assert found[0].models == ("name of models:/fraud/1" if env == "prod" else "name of models:/digits/1")
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("?", "The rules in listen.yml cannot be used."),
        ([make_rule("fraud", "fraud", alias="")], "The recipe of the rule 'fraud' cannot be used."),
        ([make_rule("fraud", "fraud", **make_publish("NOT/A valid::x"))], "is not the name of an image"),
        ([make_rule("fraud", "fraud", **make_publish(f"x/y@sha256:{'0' * 64}"))], "has a digest"),
        ([{"name": "fraud", "models": "fraud", "recipe": {"publish": ["x"]}}], "may not be written"),
        ([{"name": "fraud", "models": "fraud", "recipe": {"budget": "${nope.x}"}}], "may not be written"),
    ],
)
def test_what_cannot_be_used_is_printed_and_loses_no_other_place(project, capsys, rules, reason):
    root = project(make_publish("localhost:5000/d:1"), rules=rules)
    assert [one.push for one in find_places(root)] == ["localhost:5000/d:1"]
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("text", ["hone: [", "- 1", "hone: text", "hone: {model: {uri: m}, budget: '${nope.x}'}"])
def test_an_approval_does_not_depend_on_a_recipe_that_cannot_be_read(project, capsys, text):
    root = project({}, rules=[make_rule("fraud", "fraud")])
    (root / "conf" / "base" / "parameters.yml").write_text(text)
    assert find_places(root) == ()
    assert capsys.readouterr().err
