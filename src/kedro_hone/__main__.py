"""The script ``kedro-hone``, also ``python -m kedro_hone``: all commands, in any folder that contains ``conf/``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from hone_runtime.errors import SLUGS, read_page


def main() -> None:
    """Configure the enclosing project, or this package if there is none, and run the command."""
    arguments = sys.argv[2:] if sys.argv[1:2] == ["hone"] else sys.argv[1:]
    if arguments[:1] == ["explain"] and {*arguments[1:]} & {*SLUGS}:
        sys.stdout.write(read_page(arguments[1]))  # also if Kedro is not installed, to load winners only
        return
    if importlib.util.find_spec("kedro") is None:
        sys.exit("The commands need Kedro, which is not installed: pip install 'kedro-hone[pipeline]'")
    from kedro_hone.hooks.logs import choose_logging  # noqa: PLC0415 - it imports what only the pipelines need

    logging = choose_logging(Path("conf"))
    if logging is not None:  # Kedro reads the variable at import, and prints a line if it is not set
        os.environ["KEDRO_LOGGING_CONFIG"] = str(logging)
    from kedro_hone.graph import configure  # noqa: PLC0415 - only after the variable is set

    configure()
    from kedro_hone.cli import script  # noqa: PLC0415 - only after the project is configured

    script(prog_name="kedro-hone")


if __name__ == "__main__":
    main()
