"""The project's recipe, for commands that only read it."""

from __future__ import annotations

from pathlib import Path

from kedro.framework.project import configure_project
from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project

from kedro_hone.graph import read_parameters
from kedro_hone.recipe.schema import Recipe, read_recipe


def read_project_recipe() -> Recipe:
    """Return the recipe of the enclosing project, or of a folder that holds only ``conf/``.

    Raises:
        HoneError: ``recipe-invalid``.
    """
    found = find_kedro_project(Path.cwd())
    if found is None:
        configure_project("kedro_hone")
    else:
        bootstrap_project(found)
    return read_recipe(read_parameters())


def find_work() -> Path:
    """Return ``data/hone`` of the enclosing project, or of the current folder."""
    return (find_kedro_project(Path.cwd()) or Path.cwd()) / "data" / "hone"
