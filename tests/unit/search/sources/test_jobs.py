"""What becomes of a worker that reads a source, or merges an adapter into it."""

from __future__ import annotations

import json

import pytest

from hone_runtime.contract import catalogue
from hone_runtime.contract.job import JobInput, StepResult
from hone_runtime.contract.toolchain import Limits, Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.outcome import Refused
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.sources import adapters, sealed_files
from kedro_hone.search.sources.jobs import call_toolchain
from kedro_hone.sources.source_format import Flavor

WORKER = """
import time

def describe(job):
    kind = job["input"]["metadata"]["kind"]
    if kind == "hangs":
        time.sleep(60)
    if kind == "no memory":
        raise MemoryError
    if kind == "wrong":
        raise ValueError("no such layer")
    if kind.startswith("slug "):
        return {"refused": "it is odd", "slug": kind.removeprefix("slug ")}
    return {"refused": "it is another model"} if kind == "refused" else {"said": kind}

merge = describe
"""


@pytest.fixture
def toolchain(tmp_path, monkeypatch):
    """The only toolchain; it reads what Transformers writes."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "plain" / "worker").mkdir(parents=True)
    (tmp_path / "plain" / "worker" / "__init__.py").write_text(WORKER)
    (tmp_path / "plain" / "requirements.in").write_text("")
    forms = frozenset({"transformers"})
    made = Toolchain(name="plain", folder=tmp_path / "plain", runs=forms, data=forms, limits=Limits(seconds=2))
    only = catalogue.Catalogue(toolchains={"plain": made}, adaptors={}, broken={})
    monkeypatch.setattr(adapters, "read_catalogue", lambda: only)
    return made


@pytest.fixture
def run(tmp_path):
    return RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)


RECIPE = read_recipe({"model": {"uri": "models:/ada/1", "base": "models:/base/1"}})


def give(folder, kind):
    folder.mkdir()
    return JobInput(path=str(folder), format="transformers", metadata={"kind": kind})


def test_what_the_worker_says_is_handed_on(tmp_path, toolchain, run):
    result = call_toolchain("describe", give(tmp_path / "files", "fine"), toolchain, recipe=RECIPE, run=run)
    assert isinstance(result, StepResult)
    assert result.notes == {"said": "fine"}
    job = json.loads(next(run.folder.rglob("*describe-source/job.json")).read_text())
    assert (job["function"], job["adaptor"]) == ("describe", "source")
    refused = call_toolchain("merge", give(tmp_path / "other", "refused"), toolchain, recipe=RECIPE, run=run)
    assert isinstance(refused, Refused)


CASES = [
    ("hangs", "source-failed", "time-out", "run again"),
    ("no memory", "source-failed", "out-of-memory", "run again"),
    ("wrong", "model-corrupt", "no such layer", "the log is"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_failure_is_told_by_its_class(tmp_path, toolchain, run, case):
    kind, slug, why, hint = case
    with pytest.raises(HoneError) as caught:
        sealed_files._describe(toolchain, give(tmp_path / "files", kind), RECIPE, run, {})
    assert (caught.value.slug, caught.value.what) == (slug, "models:/ada/1 cannot be read.")
    assert why in caught.value.why
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "case",
    [
        ("refused", "model-unsupported", "Log another one."),
        ("slug recipe-invalid", "recipe-invalid", "Name one of them."),
        ("slug source-stateful", "source-stateful", "Let its state be an input"),
        ("slug odd", "model-unsupported", "Log another one."),
    ],
)
def test_the_hint_of_a_refusal_is_its_formats_own_before_a_general_one(tmp_path, toolchain, run, case):
    kind, slug, hint = case
    hints = {"recipe-invalid": "Name one of them.", "": "Log another one."}
    with pytest.raises(HoneError) as caught:
        sealed_files._describe(toolchain, give(tmp_path / "files", kind), RECIPE, run, hints)
    assert caught.value.slug == slug
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("case", [*CASES, ("refused", "model-unsupported", "it is another model.", "hone.model.base")])
def test_only_a_refusal_says_that_the_base_is_another_model(tmp_path, toolchain, run, case):
    kind, slug, why, hint = case
    flavor = Flavor(format="transformers", files=(), metadata={"kind": kind})
    (tmp_path / "files").mkdir()
    with pytest.raises(HoneError) as caught:
        adapters._call(tmp_path / "files", tmp_path / "merged", flavor, RECIPE, run)
    assert (caught.value.slug, "models:/base/1" in caught.value.what) == (slug, True)
    assert why in caught.value.why
    assert hint in caught.value.hint
    assert ("hone.model.base" in caught.value.hint) == (kind == "refused")
