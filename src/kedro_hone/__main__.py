"""``python -m kedro_hone``: the project's commands in a folder that contains only ``conf/``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from hone_runtime.errors import SLUGS, read_page


def main() -> None:
    """Configure the enclosing project, or this package if there is none, and run the command."""
    if sys.argv[1:3] == ["hone", "explain"] and {*sys.argv[3:]} & {*SLUGS}:
        sys.stdout.write(read_page(sys.argv[3]))  # also if Kedro is not installed, to load winners only
        return
    if importlib.util.find_spec("kedro") is None:
        sys.exit("The commands need Kedro, which is not installed: pip install 'kedro-hone[pipeline]'")
    from kedro_hone.hooks.logs import choose_logging  # noqa: PLC0415 - it imports what only the pipelines need

    logging = choose_logging(Path("conf"))
    if logging is not None:  # Kedro reads the variable at import, and prints a line if it is not set
        os.environ["KEDRO_LOGGING_CONFIG"] = str(logging)
    from kedro_hone.graph import configure  # noqa: PLC0415 - only after the variable is set

    configure()
    from kedro_hone.cli import cli  # noqa: PLC0415 - only after the project is configured

    cli(prog_name="kedro-hone")


if __name__ == "__main__":
    main()
