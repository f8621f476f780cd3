"""The starter of ``kedro new --starter=hone``: a new project with what ``kedro hone init`` adds to an old one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kedro.framework.cli.starters import KedroStarterSpec

TEMPLATE: Final = Path(__file__).with_name("starter")
"""A template of cookiecutter, which is installed with the package."""

STARTERS: Final = [KedroStarterSpec("hone", str(TEMPLATE))]
