"""The arguments of ``kedro hone optimize`` for a step with data."""

from __future__ import annotations

import click
import pytest

from hone_runtime.errors import HoneError
from kedro_hone.cli.optimize import optimize
from kedro_hone.github.arguments import DERIVED, check_combination, clear_project, write_arguments
from kedro_hone.github.inputs import Inputs

HOSTILE = "--publish --to=x $(touch pwned)"


def parse(folder, **given):
    """Return the values of the options as the command reads them, without running it."""
    context = click.Context(optimize)
    optimize.parse_args(context, write_arguments(Inputs(model="models:/m/1", data="a.csv", **given), folder))
    return context.params


def test_each_input_is_the_option_of_its_name(tmp_path):
    given = {"target": "y", "group": "g", "task": "fidelity", "trust": "pickle, native", "max_drop": "1%"}

    found = parse(tmp_path, **given)

    assert found["source"] == "models:/m/1"
    assert found["data"] == ("a.csv",)
    assert {name: found[name] for name in given} == given | {"trust": ("pickle", "native")}
    assert found["folder"] == DERIVED
    assert not found["publish"]


def test_named_splits_are_one_a_line(tmp_path):
    context = click.Context(optimize)
    inputs = Inputs(model="m", data="calibration=a.csv\n search=b c.csv \n\ngate=d.csv")
    optimize.parse_args(context, write_arguments(inputs, tmp_path))

    assert context.params["data"] == ("calibration=a.csv", "search=b c.csv", "gate=d.csv")


@pytest.mark.attack(
    what="options of the command in the inputs of a step with data",
    who="pull request",
    stopped_by="each value is part of its option's argument, and no shell reads it",
)
@pytest.mark.parametrize("name", ["target", "group", "task", "max_drop", "trust", "params"])
def test_no_value_becomes_another_option(tmp_path, name):
    value = f"hone.seed={HOSTILE}" if name == "params" else HOSTILE

    found = parse(tmp_path, **{name: value})

    assert (found["publish"], found["to"]) == (False, None)
    assert found["source"] == "models:/m/1"


def test_neither_model_nor_data_become_another_option(tmp_path):
    context = click.Context(optimize)
    optimize.parse_args(context, write_arguments(Inputs(model=HOSTILE, data=HOSTILE), tmp_path))

    assert (context.params["source"], context.params["data"]) == (HOSTILE, (HOSTILE,))
    assert (context.params["publish"], context.params["to"]) == (False, None)


def test_publishing_follows_the_input(tmp_path):
    assert parse(tmp_path, publish="on-pass")["publish"]


def test_params_are_keys_of_the_derived_recipe(tmp_path):
    params = "hone.budget=60\nhone.confirm.looks=[3]\nhone.adaptors[onnxruntime.int8-dynamic].enabled=false"

    found = parse(tmp_path, params=params)["settings"]

    assert found == ("budget=60", "confirm.looks=[3]", "adaptors={onnxruntime.int8-dynamic: {enabled: false}}")


@pytest.mark.attack(
    what="publishing from a pull request by a key of the recipe in `params`",
    who="pull request",
    stopped_by="only the input `publish` decides",
)
@pytest.mark.parametrize("line", ["hone.publish.enabled=true", "hone.publish={enabled: true}", "hone.publish=true"])
def test_params_do_not_publish(tmp_path, line):
    with pytest.raises(HoneError, match="publish") as raised:
        parse(tmp_path, params=line)

    assert raised.value.slug == "action-input-invalid"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"data": "a", "model": "m", "recipe": "r.yml"}, "'recipe' excludes the input 'data'"),
        ({"data": "a", "model": "m", "data_remote": "s3"}, "'data-remote' excludes the input 'data'"),
        ({"data": "a"}, "'data' needs the input 'model'"),
        ({"target": "y"}, "'target' needs the input 'data'"),
        ({"max_drop": "1%", "model": "m"}, "'max-drop' needs the input 'data'"),
    ],
)
def test_inputs_that_exclude_each_other_are_refused(given, said):
    with pytest.raises(HoneError, match=said) as raised:
        check_combination(Inputs(**given))

    assert raised.value.slug == "action-input-invalid"


def test_only_the_store_of_a_derived_project_stays(tmp_path):
    project = tmp_path / DERIVED
    for name in (
        "conf/local/parameters.yml",
        "data/hone/store/kept",
        "data/hone/latest/x",
        "data/x/y",
        "pyproject.toml",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()

    clear_project(project, tmp_path)

    assert [path for path in project.rglob("*") if path.is_file()] == [project / "data" / "hone" / "store" / "kept"]


def test_a_link_out_of_the_workspace_is_refused(tmp_path):
    (tmp_path / "outside" / "conf").mkdir(parents=True)
    (tmp_path / "workspace" / DERIVED.parent).mkdir(parents=True)
    (tmp_path / "workspace" / DERIVED).symlink_to(tmp_path / "outside")

    with pytest.raises(HoneError, match="no place"):
        clear_project(tmp_path / "workspace" / DERIVED, tmp_path / "workspace")

    assert (tmp_path / "outside" / "conf").is_dir()
