"""BladeDISC's adaptor with the real PyTorch. **BladeDISC itself is unverified**: it is on no index, so that a stand-in
package ``torch_blade``, which these tests write, takes its place in an interpreter that a recipe names."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from digits_bench import Bench, make_bench, read_splits

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from kedro_hone.adaptors.bladedisc.adaptor import ADAPTORS, TOOLCHAIN
from kedro_hone.core.environments.requirements import find_closure
from kedro_hone.core.workers.host.run import WORKER_MAIN
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.nightly]

MAIN = [WORKER_MAIN.with_name(f"{name}.py") for name in ("main", "imports", "packages", "interpreter")]
"""What every worker of an interpreter runs that a recipe names."""
SHAPES = {"batch2": {"batch": 2}, "batch64": {"batch": 64}}
STAND_IN = """
import torch

from . import mlir


def optimize(model, allow_tracing=None, model_inputs=None):
    shapes = [tuple(tensor.shape) for tensor in model_inputs]
    frozen = not dict(model.named_parameters())
    print(f"stand-in: {allow_tracing=} {shapes=} {model.training=} {frozen=} {torch.is_grad_enabled()=}")
    return torch.jit.freeze(torch.jit.trace(model, model_inputs))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """An interpreter with the PyTorch that runs these tests, as a vendor's image has one, and a stand-in."""
    venv = tmp_path_factory.mktemp("vendor") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    for name in find_closure(["torch", "numpy"]):  # by links: a worker reads nothing outside of its interpreter
        for file in metadata.distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                _link(Path(file.locate()), packages / file)
    info = packages / "torch_blade-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_blade\nVersion: 0.2.0\n")
    (packages / "torch_blade").mkdir()
    write_stand_in(venv / "bin" / "python")
    return venv / "bin" / "python"


def _link(source: Path, copy: Path) -> None:
    try:
        os.link(source, copy)
    except OSError:  # of another disk
        shutil.copy2(source, copy)


def write_stand_in(python: Path, *, text: str = STAND_IN, engines: int = 1) -> None:
    """Write the stand-in; it says that it compiled so many parts of the model."""
    (package,) = python.parents[1].glob("lib/python3*/site-packages/torch_blade")
    (package / "__init__.py").write_text(text)
    (package / "mlir.py").write_text(f"def num_engines(module):\n    return {engines}\n")
    shutil.rmtree(package / "__pycache__", ignore_errors=True)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def make(digits_models, tmp_path, home):
    """Return a function that makes a bench whose recipe names an interpreter, or none."""

    def call(named: Path | None) -> Bench:
        recipe = {"environments": {"bladedisc": {"python": str(named)}}} if named else {}
        program = digits_models / "exported" / "model.pt2"
        splits = read_splits(digits_models)
        return make_bench(tmp_path, program, splits, form="pytorch", runtime="pytorch", shapes=SHAPES, **recipe)

    return call


def build(bench: Bench):
    """Trace the source and compile it; return the last outcome, and what was printed meanwhile."""
    outcome = bench.context.source
    for name in ("pytorch.trace", "bladedisc.torchscript"):
        assert isinstance(outcome, Artifact), outcome.reason
        adaptor = read_catalogue().find_adaptor(name)
        outcome = transform(adaptor, adaptor.options(), outcome, bench.context, reference=bench.reference)
    logs = bench.context.run.folder.glob("steps/*bladedisc*/log")
    return outcome, "".join(path.read_text() for path in logs)


def test_it_is_refused_where_the_recipe_names_no_interpreter_and_nothing_is_installed(make, home):
    refused, log = build(make(None))

    assert isinstance(refused, Refused), refused
    assert refused.slug == "not-installed"
    assert "`hone: {environments: {bladedisc: {python: /path/to/python}}}`" in refused.reason
    assert "package indexes lack what bladedisc needs" in refused.reason
    assert not log
    assert not home.exists()


def test_an_interpreter_without_it_is_a_failure_that_says_so(make):
    failed, _ = build(make(Path(sys.executable)))

    assert isinstance(failed, Failed), failed
    assert failed.failure is FailureClass.INSTALL
    assert "torch_blade is not installed" in failed.reason


def test_a_program_goes_to_it_unfrozen_and_comes_back_as_it_was(make, python):
    write_stand_in(python)
    bench = make(python)
    artifact, log = build(bench)

    assert isinstance(artifact, Artifact), artifact.reason
    assert (artifact.format, artifact.runtime) == ("bladedisc", "bladedisc")
    assert artifact.metadata["bladedisc"]["engines"] == 1
    assert "allow_tracing=True shapes=[(2, 1, 8, 8)] model.training=False frozen=False" in log
    assert "torch.is_grad_enabled()=False" in log
    assert [(spec.name, spec.shape) for spec in artifact.inputs] == [("image", ("batch", 1, 8, 8))]
    validation = bench.validate(artifact)
    assert validation.status is Status.MEASURED, validation.reason
    assert validation.largest_error < 1e-4


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"engines": 0}, Refused, "BladeDISC compiled no part of it"),
        (
            {"text": STAND_IN.replace("import torch\n", "import torch\n", 1) + "\noptimize = None\n"},
            Failed,
            "TypeError",
        ),
    ],
)
def test_what_compiles_nothing_is_no_candidate(make, python, changes, kind, words):
    write_stand_in(python, **changes)
    outcome, _ = build(make(python))

    assert isinstance(outcome, kind), outcome
    assert words in outcome.reason


def test_what_pytorch_does_not_know_is_refused_with_its_words(make_bench, tmp_path, python):
    """As PyTorch 1.12 does with operators that came later; here with a file that is none."""
    from kedro_hone.adaptors.bladedisc import adaptor as module

    write_stand_in(python)
    bench = make_bench(module)
    bench.python = str(python)
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "model.ts").write_bytes(b"PK no archive")
    specs = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch"]}], "outputs": []}
    shapes = [{"name": "one", "sizes": {"batch": 1}}]
    notes, _ = bench.transform("bladedisc.torchscript", folder, described=specs, shapes=shapes)

    assert notes["refused"].startswith("PyTorch 2.13")
    assert "cannot open model.ts" in notes["refused"]
    told, _ = bench.call("describe", folder, "bladedisc", expect_error=True)
    assert "cannot open model.ts" in told["raised"]


def test_it_refuses_another_device(make_bench, tmp_path, python):
    from kedro_hone.adaptors.bladedisc import adaptor as module

    write_stand_in(python)
    bench = make_bench(module)
    bench.python = str(python)
    feeds = [{"x": np.zeros(1, np.float32)}]
    told, _ = bench.call("run", tmp_path, "bladedisc", feeds=feeds, device="cuda:0", expect_error=True)

    assert "the model is for the device cuda:0" in told["raised"]


def test_its_winners_are_native_and_it_is_off_unless_asked_for():
    catalogue = read_catalogue()

    assert catalogue.is_native("bladedisc")
    assert not TOOLCHAIN.default
    assert not TOOLCHAIN.runtime_requirements
    assert not TOOLCHAIN.lock.exists()
    assert all(adaptor.machine_specific for adaptor in ADAPTORS)


@pytest.mark.parametrize("path", [*sorted(TOOLCHAIN.worker.parent.glob("*.py")), *MAIN], ids=lambda path: path.name)
def test_what_runs_there_is_python_3_8(path):
    """The vendor's images have no later one. A subscript of a built-in class is one of an annotation, not evaluated."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    evaluated = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    generic = [one for one in evaluated if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name)]

    assert not [one for one in generic if one.value.id in {"dict", "list", "tuple", "set", "type"}]
