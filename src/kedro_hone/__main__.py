"""``python -m kedro_hone``: the project's commands in a folder that holds only ``conf/``."""

from __future__ import annotations

from pathlib import Path

from kedro.framework.project import configure_project
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project


def main() -> None:
    """Configure the project around, or this package where there is none, and run the command."""
    found = find_kedro_project(Path.cwd())
    if found is None:
        configure_project("kedro_hone")
    else:
        bootstrap_project(found)
    from kedro_hone.cli import cli  # noqa: PLC0415 - only after the project is configured

    cli(prog_name="kedro-hone")


if __name__ == "__main__":
    main()
