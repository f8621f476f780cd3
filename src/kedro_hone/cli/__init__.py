"""The command line: ``kedro run`` with exit codes that mean something, and everything else under ``kedro hone``."""

from __future__ import annotations

from kedro_hone.cli.groups import cli, commands

__all__ = ["cli", "commands"]
