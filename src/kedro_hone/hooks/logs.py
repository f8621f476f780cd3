"""The log lines that a run prints: kedro-hone's, and Kedro's warnings, unless the project has its own configuration."""

from __future__ import annotations

import logging
import os
from importlib.resources import files
from pathlib import Path

import yaml

DEFAULT = Path(__file__).with_name("logging.yml")  # for a project without its own configuration


def choose_logging(conf: Path, package: str | None = None) -> Path | None:
    """Return the logging configuration to use instead of Kedro's own, which prints every dataset and node.

    It is None if the project has its own: by ``KEDRO_LOGGING_CONFIG``, or by a file in its ``conf`` that differs from
    the one that ``kedro new`` wrote for its package.
    """
    if os.environ.get("KEDRO_LOGGING_CONFIG"):
        return None
    found = [conf / name for name in ("logging.yml", "logging.yaml", "logging.json") if (conf / name).is_file()]
    if not found:
        return DEFAULT
    template = files("kedro") / "templates/project/{{ cookiecutter.repo_name }}/conf/logging.yml"
    if package is None or not template.is_file():
        return None
    written = template.read_text().replace("{{ cookiecutter.python_package }}", package)
    return DEFAULT if found[0].read_text() == written else None


def configure_logging(root: Path = Path()) -> None:
    """Print kedro-hone's log lines and hide Kedro's, unless the project at the root has its own configuration."""
    from kedro.framework import project  # noqa: PLC0415 - it sets up its own logging as soon as it is imported

    if chosen := choose_logging(root / "conf", project.PACKAGE_NAME):
        project.configure_logging(yaml.safe_load(chosen.read_text()))
    if chosen or _is_default(Path(os.environ.get("KEDRO_LOGGING_CONFIG") or root / "conf" / "logging.yml")):
        _use_lines()


def _is_default(path: Path) -> bool:
    """Return whether a file is a copy of our configuration."""
    return path.is_file() and path.read_text() == DEFAULT.read_text()


def _use_lines() -> None:
    """Replace Kedro's handler, since Kedro's configuration may not name a handler of another package."""
    from kedro_hone.hooks.lines import LineHandler  # noqa: PLC0415 - it imports Kedro's logging

    log = logging.getLogger()
    for known in [one for one in log.handlers if type(one) is LineHandler.__base__]:
        log.removeHandler(known)
        lines = LineHandler(
            known.level, markup=False, rich_tracebacks=False, show_path=False, show_level=False,
            omit_repeated_times=False, log_time_format="%H:%M:%S",
        )  # fmt: skip
        lines.setFormatter(known.formatter)
        log.addHandler(lines)
