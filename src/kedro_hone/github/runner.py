"""The Action's first step: one process of ``kedro run`` or ``kedro hone optimize``, and the folder of its result."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from hone_runtime.values.digest import digest_json
from kedro_hone.github.arguments import DERIVED, check_combination, clear_project, write_arguments
from kedro_hone.github.context import read_context, write_output
from kedro_hone.github.inputs import Inputs, disable_publishing, read_inputs, write_options
from kedro_hone.report.lines import GROUPS

_LATEST: Final = Path("data", "hone", "latest")
"""The link to the latest run's folder, below a project."""

_PRIVATE: Final = (
    "ACTIONS_",
    "GITHUB_ENV",
    "GITHUB_OUTPUT",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_TOKEN",
    "INPUT_",
)


def run() -> None:
    """Run the pipelines in the project, and write the outputs ``branch``, ``code`` and ``folder``.

    ``branch`` is a digest of the branch that the result is compared with, or stored for: the key of a cache must not
    contain a comma. ``folder`` is empty if the run left no new folder: an existing one is an earlier run's.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    context = read_context()
    inputs = disable_publishing(read_inputs(), context)
    branch = os.environ.get("GITHUB_BASE_REF") or os.environ.get("GITHUB_REF_NAME", "")
    write_output("branch", digest_json(branch).removeprefix("sha256:")[:16])
    project = context.workspace / inputs.project
    check_combination(inputs)
    place = project / DERIVED if inputs.data else project
    before = _find_latest(place)
    code = _start(inputs, context.workspace, project)
    after = _find_latest(place)
    write_output("code", code)
    write_output("folder", "" if after is None or after == before else os.path.relpath(after, context.workspace))


def _start(inputs: Inputs, workspace: Path, project: Path) -> int:
    """Run the pipelines in a project, or in a folder with ``conf/`` only, without the runner's token and credentials.

    With the input ``data``, ``kedro hone optimize`` runs them.

    Its output is not interpreted as commands of the workflow, such as annotations and masks:
    https://docs.github.com/actions/reference/workflow-commands-for-github-actions#stopping-and-starting-workflow-commands
    """
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as scratch:
        options = Path(scratch, "run.yml")
        if inputs.data:
            arguments = ["hone", "optimize", *write_arguments(inputs, workspace)]
            clear_project(project / DERIVED, workspace)
        else:
            write_options(inputs, workspace, options)
            arguments = ["run", "--config", str(options)]
        command = [sys.executable, "-m", "kedro_hone", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
        environment[GROUPS] = "off"
        secret = secrets.token_hex(16)
        _print_command(f"::stop-commands::{secret}")
        try:
            return subprocess.run(command, cwd=project, env=environment, check=False).returncode
        finally:
            _print_command(f"::{secret}::")


def _print_command(command: str) -> None:
    # The toolkit has no command of this kind. Flushed: the child writes to the same file.
    sys.stdout.write(f"{command}\n")
    sys.stdout.flush()


def _find_latest(project: Path) -> Path | None:
    found = (project / _LATEST).resolve()
    return found if found.is_dir() else None
