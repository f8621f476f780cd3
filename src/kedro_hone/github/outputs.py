"""The outputs of a step, which GitHub's runner reads from a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_output(name: str, value: object) -> None:
    """Write one output as it is, between two lines that nobody can foresee, and so no value can hold.

    The toolkit's ``set_output`` escapes the value, which only workflow commands need: ``%`` would arrive as ``%25``.
    https://docs.github.com/actions/reference/workflow-commands-for-github-actions#multiline-strings
    """
    delimiter = secrets.token_hex(16)
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as stream:
        stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
