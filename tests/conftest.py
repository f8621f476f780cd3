"""Small projects for the tests of the whole line. What they share is next to this file, since tests are no package."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from installations import find_environments, install_node_modules
from small_project import Done, Project, copy_project, make_template

from hone_runtime.worker.packages import make_importable
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.locks import hold_lock

SCRIPTS = Path(__file__).parent / "integration" / "adaptors"
for worker in sorted(Path(__file__).parents[1].glob("adaptors/*/worker/hone_*")):
    make_importable(str(worker))


def pytest_configure() -> None:
    """Draw one seed for all processes of the session: they must agree on the names of the tests."""
    os.environ.setdefault("HONE_SEED", str(random.SystemRandom().randrange(10**6)))
    # Threads that wait for each other spin, and tests run beside each other. Workers have the recipe's number.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Let the first process of the session that wants it fill a folder, which all others find; return it."""
    with hold_lock(folder.with_name(f"{folder.name}.lock"), purpose=f"making {folder.name}"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            make(folder)
            (folder / "done").touch()
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder that all processes of the session have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def environments() -> EnvironmentStore:
    """Where toolchains' own environments are built, once for all sessions."""
    return find_environments()


@pytest.fixture(scope="session")
def keras_rows(shared) -> Path:
    """Rows of scikit-learn's digits as Keras has them, (rows, 8, 8, 1), that ``digits_models`` was trained on, too."""

    def make(folder: Path) -> None:
        import numpy as np
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        rest = np.random.default_rng(0).permutation(len(images))[768:]  # as in digits_models.py
        np.savez(folder / "rows.npz", x=(images[rest] / 16).astype(np.float32).reshape(-1, 8, 8, 1), y=labels[rest])

    return make_once(shared / "keras-rows", make) / "rows.npz"


@pytest.fixture(scope="session")
def keras_models(shared, environments, keras_rows) -> Path:
    """Every model of ``keras_models.py``, trained and saved by the toolchain's own environment."""
    from kedro_hone.adaptors.tensorflow.adaptor import TOOLCHAIN

    (packages,) = Path(environments.ensure(TOOLCHAIN).python).parents[1].glob("lib/python3*/site-packages")
    script = Path(__file__).with_name("keras_models.py")

    def make(folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", *map(str, (script, packages, keras_rows, folder))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return make_once(shared / "keras-models", make)


@pytest.fixture(scope="session")
def keras_kinds(shared, environments) -> Path:
    """Every model of ``keras_kinds.py``, saved by the toolchain's own environment."""
    from kedro_hone.adaptors.tensorflow.adaptor import TOOLCHAIN

    script, python = Path(__file__).with_name("keras_kinds.py"), environments.ensure(TOOLCHAIN).python

    def make(folder: Path) -> None:
        subprocess.run([python, "-W", "ignore", str(script), str(folder)], check=True, stdout=subprocess.DEVNULL)

    return make_once(shared / "keras-kinds", make)


@pytest.fixture(scope="session")
def digits_models(shared) -> Path:
    """A net for scikit-learn's digits in every source format, trained once in a session; not to be written to.

    A folder with ``module/``, ``exported/``, ``onnx/``, ``scripted/``, ``calibration.npz`` and ``search.npz``.
    """
    return make_once(shared / "digits", partial(run_script, "digits_models.py"))


@pytest.fixture(scope="session")
def compressed_nets(shared) -> Path:
    """Networks for scikit-learn's digits as exported programs, made once in a session; not to be written to."""
    return make_once(shared / "compressed", partial(run_script, "compressed_nets.py"))


@pytest.fixture(scope="session")
def transformers(shared) -> Path:
    """Small transformers as ONNX, made once in a session; not to be written to: ``encoder/`` and ``decoder/``."""
    return make_once(shared / "transformers", partial(run_script, "encoder_model.py"))


@pytest.fixture(scope="session")
def berts(shared) -> Path:
    """A small BERT as ONNX as importers fail on it, not to be written to: ``raw/``, ``dynamo/``, ``domains/``."""
    return make_once(shared / "berts", partial(run_script, "bert_models.py"))


def run_script(script: str, folder: Path) -> None:
    """Have a script write its models into a folder, in a process of its own.

    Torch warns, keeps threads and must not be forked afterwards.
    """
    command = [sys.executable, "-W", "ignore", str(SCRIPTS / script), str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def template(shared) -> Path:
    """A project that never ran; its copies share nothing with it."""
    return make_once(shared / "template", make_template) / "shop"


@pytest.fixture(scope="session")
def node(shared) -> Path:
    """A folder with the scripts of ``action/`` and the packages of their lock."""

    def make(folder: Path) -> None:
        scripts, others = Path(__file__).parent / "action", shutil.ignore_patterns("node_modules")
        shutil.copytree(scripts, folder, dirs_exist_ok=True, ignore=others)
        (folder / "node_modules").symlink_to(install_node_modules() / "node_modules")

    return make_once(shared / "node", make)


@pytest.fixture
def project(template, tmp_path) -> Project:
    """A project of the test's own that never ran."""
    return copy_project(template, tmp_path)


@pytest.fixture(scope="session")
def finished(template, shared) -> Project:
    """A project that ran once and published a winner. All processes share it: look at it, and change nothing.

    Its attribute ``first`` is the command that ran.
    """
    return run_once(shared / "finished", template, "run")


@pytest.fixture(scope="session")
def unpublished(template, shared) -> Project:
    """A project with a program of its own, whose winner waits to be published; shared as ``finished`` is.

    Copy it with ``copy_project`` to go on from there.
    """
    return run_once(shared / "unpublished", template, "run", "--pipelines", "assess", program="likeness.py")


def run_once(folder: Path, template: Path, *command: str, program: str | None = None) -> Project:
    """Return the project in a folder, where a command ran once in a session; its output is that of the first."""
    project = Project(folder / template.name)
    if program is not None:
        project.set(program={"name": program})

    def make(folder: Path) -> None:
        copy_project(template, folder)
        if program is not None:
            (project.root / program).write_text("from hone_programs.fidelity import *\n")
        done = project.call(*command)
        assert done.code == 0, done.output
        (folder / "output").write_text(done.output)

    make_once(folder, make)
    project.first = Done(code=0, output=(folder / "output").read_text())
    return project
