"""Start a server: ``python -P -m kedro_hone.serving.server CONFIGURATION.json``.

With ``--with-parent`` as a second argument it stops when its parent process ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hone_runtime.errors import ExitCode, HoneError
from kedro_hone.serving.server.logs import configure_logs
from kedro_hone.serving.server.parents import WITH_PARENT, end_with_parent
from kedro_hone.serving.server.supervisor import supervise


def main(arguments: list[str]) -> int:
    """Serve until a signal comes, and return the exit code."""
    configure_logs()
    if not arguments or arguments[1:] not in ([], [WITH_PARENT]):
        sys.stderr.write(f"usage: python -P -m kedro_hone.serving.server CONFIGURATION.json [{WITH_PARENT}]\n")
        return ExitCode.INPUT
    if len(arguments) > 1:
        end_with_parent()
    try:
        return supervise(Path(arguments[0]))
    except (HoneError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.INPUT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
