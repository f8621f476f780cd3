"""The command line: ``kedro run`` with an exit code for each verdict, and everything else under ``kedro hone``."""

from __future__ import annotations

from kedro_hone.cli.groups import cli, commands

__all__ = ["cli", "commands"]
