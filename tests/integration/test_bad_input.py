"""What users get wrong: each is told in words with a stable name, ends with exit code 3, and harms nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
from pipeline_models import make_pipeline
from small_project import Done, Project, copy_project

Prepare = Callable[[Project], None]

REGISTER = """
from pathlib import Path
from mlflow import MlflowClient
folder = Path("data").absolute() / "matrix"
folder.mkdir(parents=True)
(folder / "MLmodel").write_text("flavors: {}")
client = MlflowClient(f"sqlite:///{folder.parent / 'mlflow.db'}")
client.create_registered_model("matrix")
client.create_model_version("matrix", folder.as_uri())
"""
_REGISTERING = Lock()


@dataclass(frozen=True)
class Case:
    """One mistake.

    Attributes:
        slug: What it is called.
        prepare: Makes it.
        says: What the user must be told.
        arguments: More arguments of ``kedro run``.
    """

    slug: str
    prepare: Prepare
    says: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


OTHER = {"drop": 100.0, "drops": {"accuracy": 0.5}}
NUMBERS = {"name": "tabular-regression", "options": {"arrays": {"target": "answers"}}}


def recipe(**sections) -> Prepare:
    return lambda project: project.set(**sections)


def catalog(old: str, new: str) -> Prepare:
    def change(project: Project) -> None:
        path = project.root / "conf" / "base" / "catalog.yml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def split(name: str, change: Callable[[Project, dict[str, np.ndarray]], dict[str, np.ndarray]], **sections) -> Prepare:
    """Change a split, commit it, and pin it."""

    def prepare(project: Project) -> None:
        path = project.splits / f"{name}.npz"
        with np.load(path) as arrays:
            changed = change(project, {key: arrays[key] for key in arrays.files})
        path.unlink()  # it may be a link into DVC's cache
        np.savez(path, **changed)
        project.track()
        project.set(**sections)

    return prepare


def model(write: Callable[[Path], None], **sections) -> Prepare:
    """Make another source model."""

    def prepare(project: Project) -> None:
        folder = project.root / "models" / "other"
        folder.mkdir()
        write(folder)
        project.set(model={"uri": "models/other"}, **sections)

    return prepare


def write_onnx(folder: Path, *, location: str | None = None) -> None:
    """Write a matrix product, with the matrix at a location outside the file if one is given."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    if location is not None:
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=location)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "matrix",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [weights],
    )
    opsets = [helper.make_opsetid("", 20)]
    (folder / "model.onnx").write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    )
    assert onnx.__version__


def write_maps(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(make_pipeline(zipmap=True).SerializeToString())


def truncate(folder: Path) -> None:
    write_onnx(folder)
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:-20])


def link_out(folder: Path) -> None:
    write_onnx(folder)
    (folder.parent.parent / "secret.bin").write_bytes(b"secret")
    (folder / "weights.bin").symlink_to("../../secret.bin")


def forget_data(project: Project) -> None:
    shutil.rmtree(project.work / "dvc")
    shutil.rmtree(project.splits.parent / ".dvc" / "cache")
    shutil.rmtree(project.splits)


def modify_data(project: Project) -> None:
    catalog("search.npz, repo: data/digits, rev: v1", "search.npz, repo: data/digits, rev: HEAD")(project)
    path = project.splits / "search.npz"
    path.unlink()
    np.savez(path, x=np.zeros((30, 4), np.float32))


def share_row(project: Project, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with np.load(project.splits / "search.npz") as search:
        arrays["x"][5] = search["x"][11]
    return arrays


def label_wrongly(project: Project, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays["labels"][3] = 7
    return arrays


def shift_answers(project: Project, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays["answers"] += 1
    return arrays


def label_from_one(project: Project, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays["labels"] += 1
    return arrays


def empty(project: Project, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array[:0] for name, array in arrays.items()}


def unreachable(project: Project) -> None:
    project.environment["MLFLOW_TRACKING_URI"] = "http://somebody:secret@127.0.0.1:9"
    project.set(model={"uri": "models:/matrix/1"})


def in_mlflow(uri: str) -> Prepare:
    def prepare(project: Project) -> None:
        made = project.root.parents[1] / "registered.db"  # MLflow takes seconds for it
        with _REGISTERING:
            if not made.exists():
                command = [sys.executable, "-W", "ignore", "-c", REGISTER]
                done = subprocess.run(command, cwd=project.root, env=project.variables, check=False)
                assert done.returncode == 0
                (project.root / "data" / "mlflow.db").rename(made)
        shutil.copy(made, project.root / "data" / "mlflow.db")
        project.set(model={"uri": uri})

    return prepare


CASES = {
    "no catalog": Case(
        "catalog-incomplete",
        lambda project: (project.root / "conf" / "base" / "catalog.yml").unlink(),
        ("There is no catalog.", "catalog*", "gate: {type: kedro_hone.datasets.FileDataset, path: data/gate.csv}"),
    ),
    "catalog that is no YAML": Case("catalog-incomplete", catalog("gate: {", "gate: {{"), ("cannot be read", "line")),
    "catalog without a split": Case(
        "catalog-incomplete",
        catalog("search:", "find:"),
        ("no entry 'search'", "search: {type: kedro_hone.datasets.FileDataset, path: data/search.csv}"),
    ),
    "no folder of the environment": Case(
        "recipe-invalid", lambda project: shutil.rmtree(project.root / "conf" / "local"), ("mkdir conf/local",)
    ),
    "registry unknown": Case(
        "registry-unknown", recipe(model={"uri": "model:/matrix/1"}), ("Did you mean the scheme models?",)
    ),
    "registry missing": Case("registry-missing", recipe(model={"uri": "models:/matrix/1"}), ("There is no file",)),
    "registry unreachable": Case("registry-unreachable", unreachable, ("http://***@127.0.0.1:9",)),
    "model unknown": Case("model-unknown", in_mlflow("models:/matrxi/1"), ("Did you mean 'matrix'?",)),
    "version unknown": Case("version-unknown", in_mlflow("models:/matrix/9"), ("There are the versions 1",)),
    "alias unknown": Case("alias-unknown", in_mlflow("models:/matrix@best"), ("no alias 'best'",)),
    "path unknown": Case("model-unknown", recipe(model={"uri": "models/matrxi"}), ("Did you mean 'matrix'?",)),
    "onnx corrupt": Case("model-corrupt", model(lambda folder: (folder / "model.onnx").write_bytes(os.urandom(500)))),
    "onnx truncated": Case("model-corrupt", model(truncate)),
    "onnx empty": Case("model-corrupt", model(lambda folder: (folder / "model.onnx").touch())),
    "onnx with maps": Case(
        "model-unsupported",
        model(write_maps),
        ("'maps' is not a tensor", "zipmap=False", "{id(model): {'zipmap': False}}", "['label', 'probabilities'])"),
    ),
    "external data outside": Case(
        "model-external-data", model(lambda folder: write_onnx(folder, location="../../a.bin"))
    ),
    "external data absolute": Case(
        "model-external-data", model(lambda folder: write_onnx(folder, location="/etc/hosts"))
    ),
    "link outside": Case("model-external-data", model(link_out), ("weights.bin is a link that leads out",)),
    "pickle": Case(
        "pickle-not-trusted", model(lambda folder: (folder / "model.pth").write_bytes(b"\x80\x02.")), ("pt2",)
    ),
    "model of no format": Case("model-unsupported", model(lambda folder: (folder / "model.h5").write_bytes(b"x"))),
    "data not pulled": Case("data-not-pulled", forget_data, ("dvc push",)),
    "data not tracked": Case("data-not-tracked", catalog("splits/search.npz", "splits/serach.npz"), ("dvc add",)),
    "revision unknown": Case("data-revision-unknown", catalog("rev: v1", "rev: v9"), ("no revision 'v9'",)),
    "data modified": Case("data-modified", modify_data, ("was changed since it was committed",)),
    "data overlap": Case("data-overlap", split("gate", share_row), ("search and gate splits share 1 row(s)", "Row 11")),
    "split empty": Case("data-empty", split("search", empty)),
    "labels mismatch": Case(
        "labels-mismatch", split("search", label_wrongly, program={"name": "tabular-classification"}), ("7",)
    ),
    "labels count from 1": Case(
        "labels-mismatch",
        split("search", label_from_one, program={"name": "tabular-classification"}),
        ("labels run from 1 to 3", "count from 0", "subtract 1"),
    ),
    "key misspelt": Case(
        "recipe-invalid", recipe(gates={"sped_up": 2}), ("hone.gates.sped_up: unknown key, did you mean 'speedup'?",)
    ),
    "key misspelt on the command line": Case(
        "recipe-invalid", recipe(), ("hone.race.secnds", "did you mean 'seconds'?"), ("--params", "hone.race.secnds=3")
    ),
    "value wrong": Case("recipe-invalid", recipe(gates={"drop": -1}), ("hone.gates.drop",)),
    "adaptor misspelt": Case(
        "adaptor-unknown", recipe(adaptors={"shop.fats": {"enabled": True}}), ("Did you mean 'shop.fast'?",)
    ),
    "adaptor of a route misspelt": Case(
        "adaptor-unknown", recipe(routes=[["shop.rund", "shop.fast"]]), ("Did you mean 'shop.round'?",)
    ),
    "option misspelt": Case(
        "recipe-invalid", recipe(adaptors={"shop.fast": {"options": {"slwo": 2}}}), ("shop.fast.options.slwo", "slow")
    ),
    "toolchain misspelt": Case("toolchain-unknown", recipe(toolchains=["shp"]), ("Did you mean 'shop'?",)),
    "metric misspelt": Case(
        "metric-unknown",
        recipe(program={"name": "tabular-classification", "metric": "acuracy_score"}),
        ("accuracy",),
    ),
    "metric's file unknown": Case(
        "metric-unknown", recipe(program={"name": "fidelity", "metric": "src/shop/metric.py:score"}), ("metric.py",)
    ),
    "program misspelt": Case("program-unknown", recipe(program={"name": "fidelty"}), ("Did you mean 'fidelity'?",)),
    "program's option misspelt": Case(
        "recipe-invalid",
        recipe(program={"name": "tabular-classification", "options": {"score": "logits"}}),
        ("'score': did you mean 'scores'?",),
    ),
    "gate too small": Case(
        "gate-unprovable",
        recipe(gates={"drop": 0.01}, program={"name": "fidelity", "options": {"compare": "argmax"}}),
        ("120 gate rows cannot prove", "at least"),
    ),
    "gate too small for a graded metric": Case(
        "gate-unprovable",
        recipe(gates={"drop": 0.01}, program={"name": "fidelity", "options": {"compare": "l2"}}),
        ("120 gate rows cannot prove", "at least"),
    ),
    "metric that no row can hold": Case(
        "gate-unprovable",
        split("search", shift_answers, program={**NUMBERS, "metric": "accuracy"}),
        ("The source's accuracy is 0 on the search split", "hone.program.metric"),
    ),
    "other metric that no row can hold": Case(
        "gate-unprovable",
        split("search", shift_answers, program={**NUMBERS, "metric": "root_mean_squared_error"}, gates=OTHER),
        ("The source's accuracy is 0 on the search split", "hone.gates.drops.accuracy"),
    ),
    "metric of classes for numbers": Case(
        "program-failed",
        recipe(program={**NUMBERS, "metric": "roc_auc"}),
        ("The metric 'roc_auc' cannot be computed", "in hone.program.metric or in hone.gates.drops"),
    ),
    "gate too small for its labels": Case(
        "gate-unprovable",
        recipe(gates={"drop": 0.01}, program={"name": "tabular-classification"}),
        ("120 gate rows cannot prove", "Use at least"),
    ),
}


@dataclass(frozen=True)
class Attempt:
    """A case that was run in a project that had run well before."""

    project: Project
    done: Done
    before: tuple


def describe(project: Project) -> tuple:
    """What must outlive every mistake."""
    work = project.work
    return (
        (work / "latest").readlink(),
        project.evidence,
        sorted(path.name for path in (work / "store" / "objects").iterdir()),
        sorted(str(path) for path in project.root.glob("models/*-hone/*")),
    )


def attempt(case: Case, finished: Project, folder: Path) -> Attempt:
    project = copy_project(finished, folder)
    case.prepare(project)
    before = describe(project)
    return Attempt(project=project, done=project.call("run", *case.arguments), before=before)


@pytest.fixture(scope="module")
def attempts(request, finished, tmp_path_factory) -> dict[str, Future[Attempt]]:
    """The cases that were selected, two at a time: most of it is waiting for Python to import."""
    names = {  # each once, although several tests look at some
        item.callspec.params["name"]: None
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    }
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {name: pool.submit(attempt, CASES[name], finished, tmp_path_factory.mktemp("case")) for name in names}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.nightly) if name.startswith("other metric") else name for name in CASES],
)
def test_it_is_explained_and_harms_nothing(attempts, name):
    case, tried = CASES[name], attempts[name].result()
    output = re.sub(r"\s+", " ", tried.done.output)
    assert tried.done.code == 3, tried.done.output
    assert f"hone explain {case.slug}" in output
    assert [text for text in case.says if text not in output] == [], tried.done.output
    assert "Traceback" not in output
    assert "secret@" not in output
    assert "No nodes ran" not in output
    assert "resume the pipeline" not in output

    project = tried.project
    latest, evidence, objects, published = describe(project)
    assert (latest, evidence, published) == (tried.before[0], tried.before[1], tried.before[3])
    assert set(tried.before[2]) <= set(objects)
    project.check_store()
    for path in (project.work / "work").glob("[!.]*.json"):
        json.loads(path.read_text())
    assert project.list_processes() == {}


@pytest.mark.parametrize(
    "name", ["data overlap", "split empty", "labels mismatch", "gate too small", "metric misspelt"]
)
def test_nothing_is_built_before_the_data_are_known_to_suffice(attempts, name):
    newest = attempts[name].result().project.runs[-1]
    assert list(newest.glob("steps/*shop.*")) == []


@pytest.mark.parametrize(
    "name",
    [
        "program misspelt",
        "program's option misspelt",
        "metric misspelt",
        "metric's file unknown",
        "gate too small for its labels",
    ],
)
def test_what_the_recipe_and_the_data_tell_is_known_before_the_pull(attempts, finished, name):
    tried = attempts[name].result()
    known = {run.name for run in finished.runs}
    steps = [step.name for run in tried.project.runs if run.name not in known for step in run.glob("steps/[0-9]*")]
    assert [step for step in steps if not step.endswith("-program-check")] == []
    assert "pulled" not in tried.done.output
