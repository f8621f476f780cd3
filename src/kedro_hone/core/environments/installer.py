"""Installs a toolchain's locked requirements into a virtual environment, and checks the installed versions.

Everything runs behind the guard of the workers: if this process is killed, the installer and all its children are
killed too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.text import SECRET_NAME
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.environments.requirements import explain_unsatisfied, list_versions, read_lines, read_pins
from kedro_hone.core.machine.disks import find_low
from kedro_hone.core.workers.host.guarded import Guarded, Program

_INSTALL_SECONDS: Final = 3600.0
"""How long one step of an installation may take; the largest toolchains are gigabytes."""

_FULL_BYTES: Final = 1 << 20
"""With fewer free bytes on the disk, an installation cannot continue."""

_MISLEADING = re.compile(
    r"PYTHON.*|VIRTUAL_ENV|CONDA_.*|PIP_(USER|TARGET|PREFIX|ROOT|REQUIRE_VIRTUALENV|NO_DEPS|PYTHON)"
)

_WRONG_DIGEST = re.compile(
    r"DO NOT MATCH THE HASHES.*?\n\s+(\S+).*?\n\s+Got\s+(\S+)|Hash mismatch for `([^`]+)`.*?Computed:\s+(\S+)",
    re.DOTALL,
)
"""The package and its digest, as pip or uv names them."""

_UNREACHABLE = re.compile(r"after connection broken by '\w+\(.*?: (.+?)['\"]\)|Failed to fetch: `([^`]+)`")
"""The reason in pip's log that an index is not reachable; or in uv's log the page that is not reachable."""

_NOT_FOUND = re.compile(
    r"No matching distribution found for|(there is no version of|was not found in|has no wheels with a matching)\s"
)
"""The message of pip or uv if no index and no folder has a package for this platform."""

_COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    # Copying a pip into each environment takes a hundred times as long as making it.
    "pip": {
        "create": "{host} -I -m venv --without-pip {venv}",
        "install": "{python} -I {pip} install --no-input --disable-pip-version-check --progress-bar=off"
        " --requirement {lock}",
        "check": "{python} -I {pip} check --disable-pip-version-check",
    },
    "pip of its own": {
        "create": "{host} -I -m venv {venv}",
        "install": "{python} -I -m pip install --no-input --disable-pip-version-check --progress-bar=off"
        " --requirement {lock}",
        "check": "{python} -I -m pip check --disable-pip-version-check",
    },
    "uv": {
        "create": "{uv} venv --no-project --python {host} {venv}",
        # As with pip: workers write no bytecode, and would compile all that they import at each start.
        "install": "{uv} pip install --compile-bytecode --no-progress --python {python} --requirements {lock}",
        "check": "{uv} pip check --python {python}",
    },
}
"""The commands of each installer to make a virtual environment, install a lock in it, and check it."""


_WHEELS: Final = ("--only-binary", ":all:")
_BUILT: Final = ("--no-build-isolation", "--no-binary", ":all:")
"""Options to install the source archives of a lock: built by the setuptools that is already installed."""


def _find_commands(variables: Mapping[str, str] = os.environ) -> Mapping[str, str] | str:
    """Return pip's commands, or uv's if the variables contain ``HONE_INSTALLER=uv``; or why neither is usable."""
    name = variables.get("HONE_INSTALLER") or "pip"
    if name not in {"pip", "uv"}:
        return f"HONE_INSTALLER is {name!r}; it can be pip or uv"
    if name == "uv" and shutil.which("uv") is None:
        return "HONE_INSTALLER is uv, and there is no uv on the path"
    return _COMMANDS["pip of its own" if name == "pip" and _find_pip() is None else name]


def _find_pip() -> Path | None:
    """Return the path that runs this interpreter's pip in another one; None without a pip of at least 22.3.

    ``pip --python`` starts the same file, not isolated, and hides by which signal it was ended.
    """
    spec = PathFinder.find_spec("pip")  # setuptools has a hook that takes distutils from a process that imports pip
    path = Path(spec.origin).with_name("__pip-runner__.py") if spec and spec.origin else None
    return path if path and path.exists() else None


def find_wheels(variables: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of wheels that ``HONE_WHEELS`` names, or None."""
    text = variables.get("HONE_WHEELS")
    return Path(text).absolute() if text else None


def install(
    toolchain: Toolchain,
    venv: Path,
    *,
    logs: Path,
    wheels: Path | None = None,
    stopped: Callable[[], bool] | None = None,
) -> str | Failed:
    """Make a virtual environment with a toolchain's locked requirements at a path that does not exist yet.

    A lock with digests is complete: only checked packages in it are installed. No source archive is built, since its
    build tools would be downloaded unchecked. The exceptions are the archives in a toolchain's ``sources.lock``:
    setuptools builds them, which was installed and checked before. Of a toolchain's builds, such as PyTorch's for CPU
    and for CUDA, the first that is found is installed; any other failure, such as a wrong digest, ends the
    installation. The name of the build is returned, such as ``cpu`` for ``requirements-cpu.lock``; empty if the
    toolchain has no builds.

    With a folder of ``wheels``, everything is installed from it with the same digests, and no index is used. The output
    of each step is written to the folder for logs. After a failure ``venv`` is unusable.
    """
    commands = _find_commands()
    if wheels is not None and not wheels.is_dir():
        commands = f"there is no folder of wheels {wheels}"
    if isinstance(commands, str):
        return Failed(by=toolchain.name, failure=FailureClass.INSTALL, reason=commands)
    python = venv / "bin" / "python"
    places = {"host": sys.executable, "venv": venv, "python": python, "pip": _find_pip(), "uv": shutil.which("uv")}

    def run(step: str, lock: Path | None = None) -> Failed | None:
        words = [word.format(lock=lock, **places) for word in commands[step.partition("-")[0]].split()]
        if lock and "--hash=" in lock.read_text():
            words += ["--require-hashes", "--no-deps", *(_BUILT if step == "install-sources" else _WHEELS)]
        if lock and wheels is not None:
            words += ["--no-index", "--find-links", str(wheels)]
        return _run(words, toolchain=toolchain, log=logs / f"{step}.log", stopped=stopped)

    failed = run("create") or run("install", toolchain.lock.absolute())
    for sources in () if failed else toolchain.sources:
        failed = run("install-sources", sources.absolute())
    name = ""
    for build in () if failed else toolchain.builds:
        name = build.stem.partition("-")[2]
        failed = run(f"install-{name}", build.absolute())
        if failed is None or not _is_not_found(_read(logs / f"install-{name}.log")):
            break
    failed = failed or run("check")
    if failed is None and (problem := _find_problem(toolchain, list_versions(python))):
        log = str(logs / "check.log")
        failed = Failed(by=toolchain.name, failure=FailureClass.INSTALL, reason=problem, log=log)
    return failed or name


def _is_not_found(text: str) -> bool:
    """Return whether a package is not available at all, according to an installer's log.

    A wrong digest does not count, nor does an index that is not reachable: its contents are unknown.
    """
    elsewhere = _WRONG_DIGEST.search(text) or _UNREACHABLE.search(text)
    return _NOT_FOUND.search(text) is not None and elsewhere is None


def _find_reason(text: str) -> str:
    """Return the most useful line of an installer's log: the last error, or else the last line."""
    if wrong := _WRONG_DIGEST.search(text):
        package, digest = (group for group in wrong.groups() if group)
        return f"{package}: the digest of the downloaded file, {digest.removeprefix('sha256:')}, is not in the lock"
    if (found := _UNREACHABLE.search(text)) and (_NOT_FOUND.search(text) or found[2]):
        return f"the package index cannot be reached: {found[1] or found[2]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    relevant = [line for line in lines if not re.match(r"\[notice\]|note:|hint:|WARNING:", line)] or lines
    errors = [line for line in relevant if re.match(r"(error|fatal|\u00d7 )", line, re.IGNORECASE) or "Error:" in line]
    return (errors or relevant or ["the installer printed nothing"])[-1]


def _find_problem(toolchain: Toolchain, versions: Mapping[str, str]) -> str | None:
    """Return how the installed versions differ from the lock, or the lock from the toolchain's requirements."""
    wanted = {toolchain.lock: read_pins(toolchain.lock), toolchain.requirements: read_lines(toolchain.requirements)}
    for path, lines in wanted.items():
        if problem := explain_unsatisfied(lines, versions):
            return f"what was installed does not satisfy {path.name}: {problem}"
    return None


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def _run(command: list[str], *, toolchain: Toolchain, log: Path, stopped: Callable[[], bool] | None) -> Failed | None:
    program = Program(
        command=command,
        environment=_make_variables(os.environ),
        folder=str(toolchain.folder.absolute()),
        log=str(log),
        log_bytes=4 << 20,
        seconds=_INSTALL_SECONDS,
        memory_bytes=1 << 62,  # no limit
        interval=0.5,
    )
    with closing(Guarded(program, stopped=stopped)) as guarded:
        end = guarded.wait()
    if end.reason is None and end.exit == 0:
        return None
    text = _read(log)
    failure, reason = FailureClass.INSTALL, _find_reason(text)
    if "No space left on device" in text:
        failure = FailureClass.DISK_FULL
    elif end.reason is None and find_low([log.parent], least=_FULL_BYTES):  # then the log could not be written either
        failure, reason = FailureClass.DISK_FULL, f"{log.stem}: No space left on device: {log.parent}"
    elif end.reason == "time-out":
        failure, reason = FailureClass.TIME_OUT, f"{log.stem}: not done after {_INSTALL_SECONDS:.0f} seconds"
    elif end.reason == "not-started":
        reason = str(end.detail)
    elif end.reason is not None or end.signal is not None:
        failure, reason = FailureClass.KILLED, f"{log.stem}: killed ({end.reason or f'signal {end.signal}'})"
    return Failed(by=toolchain.name, failure=failure, reason=reason, log=str(log))


def _make_variables(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return variables for an installer: none that would install elsewhere, and no secrets but those of pip and uv."""
    return {
        name: value
        for name, value in inherited.items()
        if not _MISLEADING.fullmatch(name) and (name.startswith(("PIP_", "UV_")) or not SECRET_NAME.search(name))
    }
