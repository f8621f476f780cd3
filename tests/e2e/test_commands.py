"""The other commands next to ``kedro run``: routes, toolchains, reports and replays, in a user's own project."""

from __future__ import annotations

import json
import shutil

import pytest
from small_project import FAST, Project, copy_project

OWN_TEST = """
import pytest
from kedro_hone.testing import AdaptorSuite
from toolchains.toy.model import make_model
from shop.adaptors import ADAPTORS

class TestFast(AdaptorSuite):
    @pytest.fixture
    def adaptor(self):
        return next(adaptor for adaptor in ADAPTORS if adaptor.name == "shop.fast")

    @pytest.fixture
    def artifact(self, tmp_path):
        return make_model(tmp_path)
"""


def ask(project: Project, *arguments: str, code: int = 0) -> str:
    done = project.call("hone", *arguments)
    assert done.code == code, done.output
    return done.output


def test_routes_are_listed_with_what_became_of_them(finished):
    rows = json.loads(ask(finished, "routes", "--json"))
    outcomes = {row["id"]: row["outcome"] for row in rows}
    assert outcomes.pop("source.shop_slow").startswith("dropped after ")
    assert outcomes["source.shop_closed"] == "refused: shop.closed: it is closed on Mondays"
    assert outcomes["source.shop_fast"] == "won"
    assert outcomes["tensorflow.shop_fast"] == "refused: nothing-to-do: the same artifact as source.shop_fast"
    assert set(outcomes) == {
        "source.shop_closed",
        "source.shop_fast",
        "tensorflow.shop_fast",
        "tensorflow.shop_round.shop_fast",
    }
    assert "built" not in outcomes.values()
    assert next(row["route"] for row in rows if row["id"].endswith("round.shop_fast")) == [
        "tensorflow",
        "shop.round",
        "shop.fast",
    ]
    table = ask(finished, "routes").splitlines()
    assert any(line.startswith("source ▸ shop.fast\twon") for line in table)
    assert not any("shop.closed" in line for line in table)
    everything = ask(finished, "routes", "--all").splitlines()
    assert everything[everything.index("shop.closed: it is closed on Mondays:") + 1] == "  source ▸ shop.closed"


def test_routes_of_a_project_that_never_ran(project):
    rows = json.loads(ask(project, "routes", "--json"))
    assert {row["outcome"] for row in rows} == {"not run yet"}


def test_toolchains_are_listed_with_the_projects_own(finished):
    table = ask(finished, "toolchains")
    assert "shop" in table
    assert "convert, round, fast, slow, closed" in table
    assert all(name in table for name in ("onnxruntime", "openvino", "pytorch"))
    assert "this interpreter" in ask(finished, "toolchains", "test", "shop")
    assert "this interpreter" in ask(finished, "toolchains", "build", "shop")
    assert ask(finished, "toolchains", "gc") == ""


def test_capabilities_are_printed_beside_the_machine(finished):
    assert ask(finished, "toolchains", "--capabilities", "onnxruntime").startswith("# this machine: ")
    assert "nothing is recorded about" in ask(finished, "toolchains", "--capabilities", "shop")
    assert "Did you mean 'onnxruntime'?" in ask(finished, "toolchains", "--capabilities", "onxruntime", code=3)


def test_the_last_report_is_printed(finished):
    text = ask(finished, "report")
    assert "PASS" in text
    assert FAST in text
    assert "Published: models/matrix-hone/1" in text
    assert 'kedro_hone.load("models/matrix-hone/1")' in text
    named = ask(finished, "report", str(finished.work / "runs" / finished.evidence["run_id"]))
    assert named.splitlines()[:5] == text.splitlines()[:5]


def test_without_a_run_there_is_no_report(project):
    assert "hone explain report-missing" in ask(project, "report", code=3)


def test_a_report_of_an_older_version_is_explained(project):
    folder = project.work / "runs" / "older"
    folder.mkdir(parents=True)
    (folder / "evidence.json").write_text('{"schema": "kedro-hone/evidence/1", "run_id": "older"}')
    text = ask(project, "report", str(folder), code=3)
    assert "hone explain evidence-unreadable" in text
    assert "kedro-hone/evidence/1" in text


def test_a_step_is_run_again_by_hand(finished, tmp_path):
    (step,) = (path for path in finished.runs[-1].glob("steps/*-shop.round"))
    text = ask(finished, "replay", step.name, "--output", str(tmp_path / "kept"))
    assert "shop.round: done in" in text
    with_number = ask(finished, "replay", step.name.partition("-")[0])
    assert "files ['model.json', 'weights.npz']" in with_number
    digest = finished.read_outcomes()["tensorflow.shop_round"]["digest"].removeprefix("sha256:")
    sealed = finished.store.root / "objects" / digest / "files"
    assert (tmp_path / "kept" / "weights.npz").read_bytes() == (sealed / "weights.npz").read_bytes()
    finished.check_store()


def test_a_step_that_is_not_there(finished):
    text = ask(finished, "replay", "999", code=3)
    assert "hone explain replay-unknown" in text
    assert "-shop.round" in text


@pytest.mark.nightly
def test_the_public_suite_tests_the_projects_own_adaptor(project):
    (project.root / "test_fast.py").write_text(OWN_TEST)
    text = ask(project, "adaptor", "test", "test_fast.py")
    assert "19 passed" in text or "18 passed, 1 skipped" in text
    worker = project.root / "src" / "shop" / "toolchain" / "worker" / "__init__.py"
    worker.write_text(worker.read_text().replace('return {"y": feeds', 'return {"y": -1 / 0 * feeds'))
    assert "failed" in ask(project, "adaptor", "test", "test_fast.py", code=1)


@pytest.fixture
def folder(template, tmp_path) -> Project:
    """A folder with a recipe, a catalog and data, and no project around."""
    project = copy_project(template, tmp_path)
    shutil.rmtree(project.root / "src")
    (project.root / "pyproject.toml").unlink()
    project.set(toolchains=["onnxruntime"], model={"uri": "models/matrix"})
    return project


def test_a_folder_that_holds_only_a_recipe_is_enough(folder):
    done = folder.call("hone", "routes", "--json", module="kedro_hone")
    assert done.code == 0, done.output
    routes = {tuple(row["route"]) for row in json.loads(done.output)}
    assert ("onnx", "onnxruntime.session") in routes
    assert not any("shop" in name for route in routes for name in route)
    assert FAST not in done.output


def test_what_no_toolchain_of_the_folder_runs_is_explained(folder):
    done = folder.call("run", module="kedro_hone")
    assert done.code == 3, done.output
    assert "hone explain model-unsupported" in done.output
