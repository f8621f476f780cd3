"""The packages of a source's runtime, where the server's environment lacks them."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.requirements import explain_unsatisfied
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.environment import SERVER, choose_server
from kedro_hone.serving.winner import ServedWinner

STARTUP: Final = "sitecustomize.py"
"""Python imports a module of this name at its start."""
_START: Final = """\
# After the server's own packages: only what it lacks comes from there.
import sys

"""


def choose_environment(winner: ServedWinner) -> Toolchain:
    """Return the environment in which `kedro-hone serve` serves a winner.

    If none has its runtime, it is the smallest one, in which ``find_packages`` completes what it lacks.
    """
    with suppress(HoneError):
        return choose_server([winner])
    return SERVER


def find_packages(artifact: Artifact, server: Environment, environments: EnvironmentStore) -> Path | None:
    """Return the folder of packages with an artifact's runtime; None if the server's environment has it.

    Args:
        artifact: What is to be served.
        server: The server's environment.
        environments: Where the toolchain's environment is looked up; it is not built.

    Raises:
        HoneError: ``serving-unsupported``: there is no such environment, or it has another version of Python.
    """
    toolchain = find_installed(str(artifact.runtime))
    needs = toolchain.runtime_requirements if toolchain else ()
    if toolchain is None or not needs:
        raise _explain(
            artifact, "its packages are not known", hint="Compare the winner in process, as its report does."
        )
    if (lacking := explain_unsatisfied(needs, server.versions)) is None:
        return None
    found = environments.ensure(toolchain, build=False)
    if isinstance(found, Failed):
        hint = f"Build it first: kedro-hone toolchains build {toolchain.name}."
        raise _explain(artifact, f"{lacking}; {found.reason}", hint=hint)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = Path(found.python).parents[1] / "lib" / version / "site-packages"
    if not place.is_dir():
        hint = f"Build its own environment: kedro-hone toolchains build {toolchain.name}."
        raise _explain(artifact, f"{found.python} has another version of Python", hint=hint)
    return place


def write_startup(folder: Path, place: Path) -> None:
    """Let processes with a folder on their ``PYTHONPATH`` find packages in another folder as well, after their own.

    A further folder comes after those of earlier calls.
    """
    path, line = folder / STARTUP, f"sys.path.append({str(place)!r})\n"
    text = path.read_text(encoding="utf-8") if path.exists() else _START
    if line not in text:
        path.write_text(text + line, encoding="utf-8")


def _explain(artifact: Artifact, why: str, *, hint: str) -> HoneError:
    return HoneError(
        "serving-unsupported",
        f"The server's environment cannot run a model of {artifact.runtime} ({artifact.format}).",
        why=f"{why}. A converted copy of a source is not the source, and is not measured in its place.",
        hint=hint,
    )
