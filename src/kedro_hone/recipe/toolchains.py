"""The recipe's settings of toolchains: the interpreters of their workers, and the handling of missing ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kedro_hone.recipe.bounds import Place, Section

Missing = Literal["build", "skip", "error"]
"""The handling of a toolchain without an environment: it is built, its candidates are left out, or the run ends."""


def _make_absolute(text: str) -> str:
    """Return an absolute path: the started program must not depend on the current folder."""
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ValueError(f"{text!r} is not an absolute path")
    return os.path.normpath(path)


Absolute = Annotated[Place, AfterValidator(_make_absolute)]
"""The absolute path of something outside the project; ``~`` is the user's home."""


class EnvironmentSection(Section):
    """The environment of one toolchain's workers, instead of its locked one."""

    python: Absolute = Field(
        description="The absolute path of a Python whose installed packages satisfy the toolchain's `requirements.in`. "
        "See Environments."
    )
