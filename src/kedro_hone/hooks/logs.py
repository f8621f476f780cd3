"""Which log lines a run prints: kedro-hone's, and Kedro's warnings, unless the project is configured otherwise."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import yaml

DEFAULT = Path(__file__).with_name("logging.yml")
"""The logging configuration of a project that has none of its own."""

_TEMPLATE = Path("templates", "project", "{{ cookiecutter.repo_name }}", "conf", "logging.yml")
_NAMES = ("logging.yml", "logging.yaml", "logging.json")


def choose_logging(conf: Path, package: str | None = None) -> Path | None:
    """Return the logging configuration to use instead of Kedro's own, which prints every dataset and node.

    Args:
        conf: The project's ``conf``.
        package: Its package, which the file of ``kedro new`` names.

    Returns:
        ``DEFAULT``; None where the project has chosen: by ``KEDRO_LOGGING_CONFIG``, or by a file in ``conf`` that is
        not just what ``kedro new`` wrote there.
    """
    if os.environ.get("KEDRO_LOGGING_CONFIG"):
        return None
    files = [conf / name for name in _NAMES if (conf / name).is_file()]
    return None if files and files[0].read_text() != _read_template(package) else DEFAULT


def configure_logging(root: Path = Path()) -> None:
    """Print kedro-hone's log lines and hide Kedro's, unless the project has its own logging configuration.

    Args:
        root: The project's root.
    """
    from kedro.framework import project  # noqa: PLC0415 - it sets up its own logging as soon as it is imported

    chosen = choose_logging(root / "conf", project.PACKAGE_NAME)
    if chosen is not None:
        project.configure_logging(yaml.safe_load(chosen.read_text()))


def _read_template(package: str | None) -> str | None:
    """Return what ``kedro new`` writes for a package."""
    kedro = importlib.util.find_spec("kedro")
    path = Path(kedro.origin).parent / _TEMPLATE if kedro and kedro.origin else None
    if path is None or package is None or not path.is_file():
        return None
    return path.read_text().replace("{{ cookiecutter.python_package }}", package)
