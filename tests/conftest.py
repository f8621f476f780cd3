"""Small projects for the tests of the whole line. What they share is next to this file, since tests are no package."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small_project import Project, copy_project, make_template

from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.locks import hold_lock

SCRIPTS = Path(__file__).parent / "integration" / "adaptors"


def pytest_configure() -> None:
    """Draw one seed for all processes of the session: they must agree on the names of the tests."""
    os.environ.setdefault("HONE_SEED", str(random.SystemRandom().randrange(10**6)))
    # Threads that wait for each other spin, and tests run beside each other. Workers have the recipe's number.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder that all processes of the session have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def environments(shared) -> EnvironmentStore:
    """Where toolchains' own environments are built, once for all; ``HONE_HOME`` keeps them for the next time."""
    return EnvironmentStore(Path(os.environ.get("HONE_HOME") or shared / "environments"))


@pytest.fixture(scope="session")
def digits_models(shared) -> Path:
    """A net for scikit-learn's digits in every source format, trained once in a session; not to be written to.

    A folder with ``module/``, ``exported/``, ``onnx/``, ``calibration.npz`` and ``search.npz``.
    """
    return make_once(shared / "digits", "digits_models.py")


@pytest.fixture(scope="session")
def transformers(shared) -> Path:
    """Small transformers as ONNX, made once in a session; not to be written to: ``encoder/`` and ``decoder/``."""
    return make_once(shared / "transformers", "encoder_model.py")


def make_once(folder: Path, script: str) -> Path:
    """Have a script write its models into a folder, unless another process of the session has."""
    with hold_lock(folder.with_suffix(".lock"), purpose=f"running {script}"):
        if not (folder / "done").exists():
            folder.mkdir(exist_ok=True)
            # In a process of its own, since torch warns, keeps threads and must not be forked afterwards.
            command = [sys.executable, "-W", "ignore", str(SCRIPTS / script), str(folder)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (folder / "done").touch()
    return folder


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Path:
    """A project that never ran; its copies share nothing with it."""
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def project(template, tmp_path) -> Project:
    """A project of the test's own that never ran."""
    return copy_project(template, tmp_path)


@pytest.fixture(scope="session")
def finished(template, tmp_path_factory) -> Project:
    """A project that ran once and published a winner. It is shared: look at it, and change nothing."""
    project = copy_project(template, tmp_path_factory.mktemp("finished"))
    project.first = project.run()
    return project
