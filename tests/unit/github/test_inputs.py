"""The Action's inputs, and the options of the run that they become."""

from __future__ import annotations

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.github.context import read_context
from kedro_hone.github.inputs import Inputs, disable_publishing, format_check, read_inputs, write_options


def read_options(inputs, folder):
    write_options(inputs, folder, folder / "run.yml")
    return yaml.safe_load((folder / "run.yml").read_text())["run"]


def test_nothing_given_assesses_the_projects_own_recipe(tmp_path):
    assert read_options(Inputs(), tmp_path) == {"pipelines": "assess"}


def test_the_whole_line_is_run_to_publish(tmp_path):
    assert read_options(Inputs(publish="on-pass"), tmp_path) == {}


def test_params_lie_over_the_model_and_that_over_the_recipe(tmp_path):
    (tmp_path / "r.yml").write_text("hone: {threads: 1, model: {uri: 'models:/a', module: m}, budget: 10}")
    hostile = "models:/$(id) '\"\n- x"
    inputs = Inputs(recipe="r.yml", model=hostile, params="hone.budget=60\n\n hone.gates.drop=0.5 ")

    found = read_options(inputs, tmp_path)["params"]

    assert found == {
        "hone": {"threads": 1, "model": {"uri": hostile, "module": "m"}, "budget": 60, "gates": {"drop": 0.5}}
    }


def test_params_name_adaptors_which_have_dots(tmp_path):
    inputs = Inputs(params="hone.adaptors[onnxruntime.int8-dynamic].enabled=false")
    found = read_options(inputs, tmp_path)["params"]
    assert found == {"hone": {"adaptors": {"onnxruntime.int8-dynamic": {"enabled": False}}}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"recipe": "no.yml"}, "cannot be read"),
        ({"recipe": "list.yml"}, "is not a recipe"),
        ({"recipe": "deep.yml"}, "cannot be read"),
        ({"recipe": "bomb.yml"}, "over 100000 values"),
        ({"params": "hone.budget"}, "name=value"),
        ({"params": "hone.a=${oc.env:HOME}"}, "is not replaced here"),
        ({"project": "../other"}, "below the workspace"),
        ({"project": "none"}, "below the workspace"),
        ({"data_remote": "s3"}, "No catalog reads it"),
    ],
)
def test_an_input_that_cannot_be_followed_is_refused(given, said, tmp_path):
    (tmp_path / "list.yml").write_text("[1]")
    (tmp_path / "deep.yml").write_text("hone: " + "[" * 3000)
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (tmp_path / "bomb.yml").write_text("\n  ".join(["hone:", "a0: &a0 [1]", *lines]))

    with pytest.raises(HoneError, match=said) as raised:
        write_options(Inputs(**given), tmp_path, tmp_path / "run.yml")

    assert raised.value.slug == "action-input-invalid"


def test_a_catalog_that_reads_the_remote_gets_it(tmp_path):
    (tmp_path / "conf" / "base").mkdir(parents=True)
    (tmp_path / "conf" / "base" / "catalog.yml").write_text("gate: {remote: '${runtime_params:data_remote,null}'}")

    assert read_options(Inputs(data_remote="s3"), tmp_path)["params"] == {"data_remote": "s3"}


def test_an_unknown_choice_names_its_input(monkeypatch):
    monkeypatch.setenv("INPUT_FAIL_ON", "sometimes")

    with pytest.raises(HoneError, match="'fail-on' cannot be 'sometimes'"):
        read_inputs()


def test_pull_request_target_is_refused(job):
    job.write_event(name="pull_request_target")

    with pytest.raises(HoneError, match="pull_request_target"):
        read_context()


MAIN = {"ref": "refs/heads/main", "repository": {"default_branch": "main"}}
COMMENT = {"issue": {"number": 7, "pull_request": {"url": "x"}}, "comment": {"author_association": "NONE"}}
RAN = {"head_repository": {"full_name": "o/r"}}


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("pull_request", {}),
        ("pull_request_review", MAIN),
        ("merge_group", {"merge_group": {"head_sha": "c" * 40}}),
        ("workflow_run", {"workflow_run": RAN | {"event": "pull_request"}}),
        ("workflow_run", {"workflow_run": RAN | {"event": "issue_comment"}}),
        ("push", MAIN | {"ref": "refs/heads/feature"}),
        ("push", MAIN | {"ref": "refs/tags/main"}),
        ("push", {"ref": "refs/heads/main"}),
        ("workflow_dispatch", MAIN | {"ref": "refs/heads/feature"}),
        ("release", MAIN),
        ("discussion_comment", MAIN),
        ("an event of next year", MAIN),
    ],
)
def test_nothing_that_is_not_merged_is_published(job, event, payload):
    job.write_event(name=event, payload=payload)

    assert disable_publishing(Inputs(publish="on-pass"), read_context()).publish == "never"


@pytest.mark.attack(
    what="a comment on a fork's pull request, which starts a job that publishes",
    who="pull request",
    stopped_by="only events of the default branch publish; all others assess",
)
def test_a_comment_on_a_pull_request_publishes_nothing(job):
    job.write_event(name="issue_comment", payload=MAIN | COMMENT)

    assert disable_publishing(Inputs(publish="on-pass"), read_context()).publish == "never"


@pytest.mark.parametrize("event", ["push", "repository_dispatch", "schedule", "workflow_dispatch"])
def test_what_is_merged_is_published_where_it_was_asked_for(job, event):
    job.write_event(name=event, payload=MAIN if event in {"push", "workflow_dispatch"} else {})

    assert disable_publishing(Inputs(publish="on-pass"), read_context()).publish == "on-pass"
    assert disable_publishing(Inputs(), read_context()).publish == "never"


def test_a_ref_that_the_runner_contradicts_is_not_merged(job):
    job.set(GITHUB_REF="refs/heads/feature")
    job.write_event(name="push", payload=MAIN)

    assert not read_context().merged


@pytest.mark.attack(
    what="publishing a winner from a pull request of a fork, on a runner that reaches the registry",
    who="pull request",
    stopped_by="a step that publishes runs nothing of a fork",
)
@pytest.mark.parametrize("head", ["eve/r", None])
@pytest.mark.parametrize(
    ("event", "ran"),
    [
        ("pull_request", ""),
        ("pull_request_review", ""),
        *(("workflow_run", f"pull_request{of}") for of in ("", "_review")),
    ],
)
def test_a_fork_runs_nothing_where_winners_are_published(job, head, event, ran):
    repository = None if head is None else {"full_name": head}
    payload = {"workflow_run": {"event": ran, "head_repository": repository}}
    job.write_event(name=event, head=head, payload=payload if ran else {})

    with pytest.raises(HoneError, match="pull request of a fork") as raised:
        disable_publishing(Inputs(publish="on-pass"), read_context())

    assert raised.value.slug == "action-input-invalid"
    assert disable_publishing(Inputs(), read_context()) == Inputs()


@pytest.mark.parametrize(
    ("given", "leg", "name"),
    [
        ({}, "", "kedro-hone"),
        ({"comment": "false", "fail_on": "never"}, "", "kedro-hone"),
        ({}, "gpu, 3.11", "kedro-hone (gpu, 3.11)"),
        ({"model": "models:/digits"}, "gpu", "kedro-hone (models:/digits, gpu)"),
        (
            {"project": "a", "params": "hone.budget=60\n\nhone.threads=1 "},
            "",
            "kedro-hone (a, hone.budget=60 hone.threads=1)",
        ),
        ({"name": "nightly", "params": "hone.budget=60"}, "", "kedro-hone (nightly)"),
        ({"name": "nightly"}, "gpu", "kedro-hone (nightly, gpu)"),
    ],
)
def test_a_check_run_is_named_after_what_tells_its_step_apart(job, given, leg, name):
    job.set(HONE_LEG=leg)

    assert format_check(Inputs(**given), read_context()) == name


def test_long_names_stay_apart(job):
    long = Inputs(params="hone.budget=60 " * 100)
    first = format_check(long, read_context())
    job.set(HONE_ID="ba9876543210")

    assert first != format_check(long, read_context())
    assert len(first) < 150
