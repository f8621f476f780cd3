"""Installing a toolchain's locked requirements into a virtual environment, and checking what was installed.

Everything runs behind the guard of the workers: should this process be killed, the installer and all its children are
killed too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.requirements import explain_unsatisfied, list_versions, read_lines, read_pins
from kedro_hone.core.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host.guarded import Program, start_guarded
from kedro_hone.core.workers.host.run import SECRET

INSTALL_SECONDS: Final = 3600.0
"""How long one step of an installation may take; the largest toolchains are gigabytes."""

_LOG_BYTES = 4 << 20
_NO_LIMIT = 1 << 62
_INTERVAL = 0.5  # seconds between two looks of the guard
_MISLEADING = re.compile(
    r"PYTHON.*|VIRTUAL_ENV|CONDA_.*|PIP_(USER|TARGET|PREFIX|ROOT|REQUIRE_VIRTUALENV|NO_DEPS|PYTHON)"
)

_WRONG_DIGEST = re.compile(
    r"DO NOT MATCH THE HASHES.*?\n\s+(\S+).*?\n\s+Got\s+(\S+)|Hash mismatch for `([^`]+)`.*?Computed:\s+(\S+)",
    re.DOTALL,
)
"""The package and its digest, as pip or uv names them."""

_NOT_FOUND = re.compile(
    r"No matching distribution found for|(there is no version of|was not found in|has no wheels with a matching)\s"
)
"""What pip or uv says where no index and no folder has a package for this platform."""


class Installer(NamedTuple):
    """The commands of one installer.

    Attributes:
        create: Makes the virtual environment at a path.
        install: Installs a lock for an interpreter.
        check: Checks that the packages of an interpreter are compatible.
    """

    create: Callable[[Path], list[str]]
    install: Callable[[Path, Path], list[str]]
    check: Callable[[Path], list[str]]


PIP: Final = Installer(
    create=lambda venv: [sys.executable, "-I", "-m", "venv", str(venv)],
    install=lambda python, lock: [
        *(str(python), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar=off", "--requirement", str(lock)),
    ],
    check=lambda python: [str(python), "-I", "-m", "pip", "check", "--disable-pip-version-check"],
)


class Installed(NamedTuple):
    """What was installed.

    Attributes:
        versions: By canonical name, sorted.
        build: Which of the toolchain's builds, such as ``cpu`` for ``requirements-cpu.lock``; empty where it has none.
    """

    versions: dict[str, str]
    build: str = ""


def choose_installer(variables: Mapping[str, str] = os.environ) -> Installer | str:
    """Return pip's commands, or uv's where the variables say ``HONE_INSTALLER=uv``; or why there is none."""
    name = variables.get("HONE_INSTALLER") or "pip"
    if name == "pip":
        return PIP
    if name != "uv":
        return f"HONE_INSTALLER is {name!r}; it can be pip or uv"
    uv = shutil.which("uv")
    if uv is None:
        return "HONE_INSTALLER is uv, and there is no uv on the path"
    return Installer(
        create=lambda venv: [uv, "venv", "--no-project", "--python", sys.executable, str(venv)],
        install=lambda python, lock: [
            *(uv, "pip", "install", "--no-progress", "--python", str(python), "--requirements", str(lock)),
        ],
        check=lambda python: [uv, "pip", "check", "--python", str(python)],
    )


def install(toolchain: Toolchain, venv: Path, *, logs: Path) -> Installed | Failed:
    """Make a virtual environment with a toolchain's locked requirements, where nothing is yet.

    A lock with digests is complete: nothing else is installed, nothing that is not checked, and nothing is built, since
    what builds a source archive would be downloaded unchecked. Of a toolchain's
    builds, such as PyTorch's for CPU and for CUDA, the first that is found is installed. The next one is tried only
    where one is not found: any other failure, such as a wrong digest, ends the installation.

    The output of each step is kept in the folder for logs. Return what is installed; or the failure, after which
    ``venv`` is unusable.
    """
    installer = choose_installer()
    if isinstance(installer, str):
        return Failed(by=toolchain.name, failure=FailureClass.INSTALL, reason=installer)
    python = venv / "bin" / "python"

    def run(step: str, command: Sequence[str]) -> Failed | None:
        return _run([*command], toolchain=toolchain, log=logs / f"{step}.log")

    def add(step: str, lock: Path) -> Failed | None:
        checked = ("--require-hashes", "--no-deps", "--only-binary", ":all:") if "--hash=" in lock.read_text() else ()
        return run(step, [*installer.install(python, lock.absolute()), *checked])

    failed = run("create", installer.create(venv)) or add("install", toolchain.lock)
    name = ""
    for build in () if failed else toolchain.builds:
        name = build.stem.partition("-")[2]
        failed = add(f"install-{name}", build)
        if failed is None or not is_not_found(_read(logs / f"install-{name}.log")):
            break
    failed = failed or run("check", installer.check(python))
    checked = failed or _check_versions(toolchain, python, logs / "check.log")
    return checked if isinstance(checked, Failed) else Installed(versions=checked, build=name)


def is_not_found(text: str) -> bool:
    """Tell whether an installer's log says that a package is not available at all; a wrong digest is not that.

    Args:
        text: The log.
    """
    return _NOT_FOUND.search(text) is not None and _WRONG_DIGEST.search(text) is None


def find_reason(text: str) -> str:
    """Return the most useful line of an installer's log: the last error, or else the last line.

    Args:
        text: The log.
    """
    if wrong := _WRONG_DIGEST.search(text):
        package, digest = (group for group in wrong.groups() if group)
        return f"{package}: the digest of the downloaded file, {digest.removeprefix('sha256:')}, is not in the lock"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not re.match(r"\[notice\]|note:|hint:|WARNING:", line)] or lines
    errors = [line for line in told if re.match(r"(error|fatal|\u00d7 )", line, re.IGNORECASE) or "Error:" in line]
    return (errors or told or ["the installer printed nothing"])[-1]


def _check_versions(toolchain: Toolchain, python: Path, log: Path) -> dict[str, str] | Failed:
    """Tell whether what was installed is what was locked, and the lock what the toolchain requires."""
    versions = list_versions(python)
    for path, lines in (
        (toolchain.lock, read_pins(toolchain.lock)),
        (toolchain.requirements, read_lines(toolchain.requirements)),
    ):
        problem = explain_unsatisfied(lines, versions.get)
        if problem is not None:
            reason = f"what was installed does not satisfy {path.name}: {problem}"
            return Failed(by=toolchain.name, failure=FailureClass.INSTALL, reason=reason, log=str(log))
    return versions


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def _run(command: list[str], *, toolchain: Toolchain, log: Path) -> Failed | None:
    program = Program(
        command=command,
        environment=make_variables(os.environ),
        folder=str(toolchain.folder.absolute()),
        log=str(log),
        log_bytes=_LOG_BYTES,
        seconds=INSTALL_SECONDS,
        memory_bytes=_NO_LIMIT,
        interval=_INTERVAL,
    )
    with closing(start_guarded(program)) as guarded:
        end = guarded.wait()
    if end.reason is None and end.exit == 0:
        return None
    text = _read(log)
    failure, reason = FailureClass.INSTALL, find_reason(text)
    if "No space left on device" in text:
        failure = FailureClass.DISK_FULL
    elif end.reason == "time-out":
        failure, reason = FailureClass.TIME_OUT, f"{log.stem}: not done after {INSTALL_SECONDS:.0f} seconds"
    elif end.reason == "not-started":
        reason = str(end.detail)
    elif end.reason is not None or end.signal is not None:
        failure, reason = FailureClass.KILLED, f"{log.stem}: killed ({end.reason or f'signal {end.signal}'})"
    return Failed(by=toolchain.name, failure=failure, reason=reason, log=str(log))


def make_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an installer: this process's, but none that would install elsewhere, and no secret.

    Variables of pip and uv pass, also a password in the address of an index.
    """
    return {
        name: value
        for name, value in inherited.items()
        if not _MISLEADING.fullmatch(name) and (name.startswith(("PIP_", "UV_")) or not SECRET.search(name))
    }
