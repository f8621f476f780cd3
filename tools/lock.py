"""Pin what this repository installs: ``requirements.lock`` to run it, ``requirements-dev.lock`` to work on it.

The ranges stand in ``pyproject.toml``; pip chooses the versions. The second lock takes the first one's versions over.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUN, DEV = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"


def main() -> None:
    """Write both locks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    builder = project["build-system"]["requires"]  # the project itself is installed without another environment
    wanted = [*builder, *project["project"]["dependencies"], *extras["pipeline"], *extras["toolchains"]]
    tools = project["dependency-groups"]["dev"]
    head = "# Made by `make lock` from pyproject.toml; do not edit.\n"
    run = resolve(wanted)
    RUN.write_text(head + "".join(run))
    added = [line for line in resolve([*wanted, *tools], constraints=RUN) if line not in run]
    DEV.write_text(f"{head}-r {RUN.name}\n{''.join(added)}")


def resolve(requirements: list[str], *, constraints: Path | None = None) -> list[str]:
    """Return the lines of a lock.

    Args:
        requirements: What is wanted, as ranges.
        constraints: A lock whose versions are kept.

    Returns:
        One line for each package, ``name==version``, sorted. A local version such as ``+cpu`` is left out: which build
        of a version is taken is the machine's business.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    keep = ["--constraint", str(constraints)] if constraints else []
    done = subprocess.run([*command, *keep, *requirements], check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    pins = {(row["metadata"]["name"], row["metadata"]["version"].partition("+")[0]) for row in report["install"]}
    return [f"{name}=={version}\n" for name, version in sorted(pins, key=lambda pin: pin[0].lower())]


if __name__ == "__main__":
    main()
