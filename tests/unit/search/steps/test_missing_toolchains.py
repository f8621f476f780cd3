"""What becomes of a toolchain that has no environment, by the recipe's word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.errors import HoneError
from hone_runtime.values.outcome import Failed
from kedro_hone.core.environments.environment import Environment
from kedro_hone.recipe.environments import find_environment, require_environments
from kedro_hone.recipe.plan import make_plan, reach_toolchains
from kedro_hone.recipe.schema import read_recipe


@pytest.fixture
def toolchain(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "requirements.in").write_text("no-such-package\n")
    (tmp_path / "requirements.lock").write_text("no-such-package==1.0\n")
    made = replace(toy.TOOLCHAIN, folder=tmp_path)
    register(*(replace(adaptor, toolchain=made) for adaptor in toy.ADAPTORS))
    yield made
    forget_registrations()


def read(**changes):
    return read_recipe({"model": {"uri": "m"}, **changes})


@pytest.mark.parametrize("word", ["skip", "error"])
def test_it_is_built_only_where_the_recipe_says_so(toolchain, word, tmp_path):
    failed = find_environment(read(missing_toolchains=word), toolchain)

    assert isinstance(failed, Failed)
    assert "its own environment is not built" in failed.reason
    assert not (tmp_path / "home").exists()


def test_an_error_names_every_one_that_is_missing_and_no_other_word_is_one(toolchain):
    others = [toolchain, replace(toolchain, name="other")]
    for word in ("build", "skip"):
        require_environments(read(missing_toolchains=word), others)
    with pytest.raises(HoneError, match="toolchain-missing") as caught:
        require_environments(read(missing_toolchains="error"), others)

    assert "toy, other" in caught.value.what
    assert "no-such-package is not installed" in caught.value.why
    assert "kedro-hone toolchains build other" in caught.value.why


def test_only_toolchains_count_that_a_source_of_its_format_can_reach(toolchain):
    plan = make_plan(read(toolchains=["toy", "onnxruntime"], adaptors={"toy.compile": {"enabled": True}}))

    assert [one.name for one in reach_toolchains(plan, "toy-source")] == ["toy"]
    assert [one.name for one in reach_toolchains(plan, "onnx")] == ["onnxruntime"]


def test_an_unknown_toolchain_has_no_environment():
    with pytest.raises(HoneError, match="toolchain-unknown"):
        make_plan(read(environments={"onxruntime": {"python": "/usr/bin/python3"}}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environments": {"toy": {"python": "python3"}}}, "'python3' is not an absolute path"),
        ({"environments": {"toy": {"pyhton": "/usr/bin/python3"}}}, "did you mean 'python'?"),
        ({"environments": {"toy": {"image": "vendor@sha256:0"}}}, "hone.environments.toy.image: unknown key"),
        ({"environments": {"toy": {}}}, "hone.environments.toy.python: is missing"),
        ({"missing_toolchains": "ignore"}, "hone.missing_toolchains"),
        ({"wheels": "wheels"}, "'wheels' is not an absolute path"),
    ],
)
def test_a_bad_word_is_told(changes, words):
    with pytest.raises(HoneError, match="recipe-invalid") as caught:
        read(**changes)

    assert words in caught.value.why


@pytest.mark.parametrize("word", ["build", "skip", "error"])
def test_what_no_index_has_is_not_built_and_the_reason_has_the_line_that_helps(toolchain, word, tmp_path):
    failed = find_environment(read(missing_toolchains=word), replace(toolchain, lockable=False))

    assert isinstance(failed, Failed)
    assert failed.reason == (
        "here no-such-package is not installed, and package indexes lack what toy needs; name an interpreter that has "
        "it in the recipe: `hone: {environments: {toy: {python: /path/to/python}}}`"
    )
    assert not (tmp_path / "home").exists()


def test_what_no_index_has_may_be_in_this_interpreter(toolchain):
    toolchain.requirements.write_text("pytest\n")

    assert isinstance(find_environment(read(), replace(toolchain, lockable=False)), Environment)
