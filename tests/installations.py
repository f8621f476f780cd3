"""What tests need next to the environment that runs them: in its folder, installed once, and again by another lock.

``python tests/installations.py`` installs all of it before the tests, as `make test` does; a test on its own installs
what it asks for. Toolchains with gigabytes, which `make test-toolchains` tests, are installed by their tests.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.outcome import Failed
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.locks import hold_lock
from kedro_hone.serving.environment import SERVER

HERE = Path(__file__).parent
ROOT = Path(sys.prefix) / "tests"
TOOLCHAINS = ("deepsparse", "litert", "iree", "sklearn")
HANG = 1200


def find_environments() -> EnvironmentStore:
    """Return where toolchains' own environments are built: next to the tests' own, or where ``HONE_HOME`` says."""
    return EnvironmentStore(Path(os.environ.get("HONE_HOME") or ROOT))


def install_once(name: str, lock: Path, install: Callable[[Path], None]) -> Path:
    """Return the folder with what was installed by a lock of this content, for this version of Python."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = ROOT / f"{name}-{python}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    ROOT.mkdir(exist_ok=True)
    with hold_lock(folder.with_name(f"{folder.name}.lock"), purpose=f"installing {name}"):
        if not folder.exists():
            # Under another name at first: what a killed process started may still be writing.
            part = Path(tempfile.mkdtemp(dir=ROOT, prefix=f"{folder.name}.part-"))
            install(part)
            part.rename(folder)
    return folder


def install_mlflow_server(version: str = "") -> Path:
    """Return a folder of packages: what MLflow's own server imports beyond this project's environment.

    Of another ``version`` (2.20, as many still run) it has all that this imports.
    """
    lock = HERE / "integration" / "mlflow_server" / f"requirements{f'-{version}' if version else ''}.lock"

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", folder, "--requirement", lock], check=True, timeout=HANG)

    return install_once(f"mlflow-server{version}", lock, install)


def install_triton_client() -> Path:
    """Return a folder of packages: Triton's client, an independent one for the protocol of ``serve``."""
    lock = HERE / "integration" / "serving" / "requirements.lock"

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", folder, "--requirement", lock], check=True, timeout=HANG)

    return install_once("triton-client", lock, install)


def install_node_modules() -> Path:
    """Return the folder with ``node_modules`` for the scripts of ``action/``."""
    scripts = HERE / "action"

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(scripts / name, folder)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        subprocess.run(command, cwd=folder, check=True, timeout=HANG)

    return install_once("node", scripts / "package-lock.json", install)


def find_sample() -> Toolchain:
    """Return the toolchain of the sample distribution; its wheel, which a test installs, has the same lock."""
    sys.path.insert(0, str(HERE.parent / "docs" / "examples" / "mnn" / "src"))
    found: Toolchain = importlib.import_module("mnn_tools.adaptor").TOOLCHAIN
    return found


def main() -> None:
    """Install everything, two at a time: each is bound by one processor."""
    if sys.prefix == sys.base_prefix:
        sys.exit(f"{sys.executable} is of no virtual environment, in whose folder this would be installed.")
    ended = threading.Event()

    def install_toolchain(toolchain: Toolchain) -> None:
        built = find_environments().ensure(toolchain, stopped=ended.is_set)
        if isinstance(built, Failed):
            raise SystemExit(f"The environment of {toolchain.name} cannot be built: {built.reason}")

    with ThreadPoolExecutor(2) as pool:
        known = read_catalogue()
        waiting = [pool.submit(install_toolchain, known.find_toolchain(name)) for name in TOOLCHAINS]
        waiting.append(pool.submit(install_toolchain, find_sample()))
        waiting.append(pool.submit(install_toolchain, SERVER))
        waiting.append(pool.submit(install_mlflow_server))
        waiting.append(pool.submit(install_triton_client))
        if shutil.which("npm"):
            waiting.append(pool.submit(install_node_modules))
        try:
            for one in waiting:
                one.result()
        except BaseException:
            ended.set()
            pool.shutdown(cancel_futures=True)
            raise


if __name__ == "__main__":
    main()
