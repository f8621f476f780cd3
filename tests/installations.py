"""What tests need next to the environment that runs them: in its folder, installed once, and again by another lock.

``python tests/installations.py`` installs all of it before the tests, as `make test` does; a test on its own installs
what it asks for. Toolchains with gigabytes, which `make test-toolchains` tests, are installed by their tests.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.locks import hold_lock
from kedro_hone.core.values.outcome import Failed

HERE = Path(__file__).parent
ROOT = Path(sys.prefix) / "tests"
TOOLCHAINS = ("deepsparse", "litert", "iree", "sklearn")
HANG = 1200


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Let the first process that wants it fill a folder, which all others find; return it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder.with_name(f"{folder.name}.lock"), purpose=f"making {folder.name}"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            make(folder)
            (folder / "done").touch()
    return folder


def install_once(name: str, lock: Path, install: Callable[[Path], None]) -> Path:
    """Return the folder with what was installed by a lock of this content."""
    return make_once(ROOT / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}", install)


def install_mlflow_server() -> Path:
    """Return a folder of packages: what MLflow's own server imports beyond this project's environment."""
    lock = HERE / "integration" / "mlflow_server" / "requirements.lock"

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", folder, "--requirement", lock], check=True, timeout=HANG)

    return install_once("mlflow-server", lock, install)


def install_node_modules() -> Path:
    """Return the folder with ``node_modules`` for the scripts of ``action/``."""
    scripts = HERE / "action"

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(scripts / name, folder)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        subprocess.run(command, cwd=folder, check=True, timeout=HANG)

    return install_once("node", scripts / "package-lock.json", install)


def install_toolchain(name: str) -> None:
    """Build the environment of a toolchain that has one of its own."""
    built = EnvironmentStore(ROOT).ensure(read_catalogue().find_toolchain(name))
    if isinstance(built, Failed):
        raise SystemExit(f"The environment of {name} cannot be built: {built.reason}")


def main() -> None:
    """Install everything, two at a time: pip is bound by one CPU."""
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(install_toolchain, name) for name in TOOLCHAINS]
        waiting.append(pool.submit(install_mlflow_server))
        if shutil.which("npm"):
            waiting.append(pool.submit(install_node_modules))
        for one in waiting:
            one.result()


if __name__ == "__main__":
    main()
