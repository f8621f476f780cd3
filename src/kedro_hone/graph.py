"""The current project, and the recipe from which its pipelines are generated.

Kedro registers pipelines, by a function without arguments, before it provides the parameters. So the first hook that
receives a run's parameters stores the recipe here; without a run (``kedro registry list``, kedro-viz) the project's
configuration is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kedro.config import MissingConfigException
from kedro.framework import project
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.io import CatalogProtocol
from kedro.utils import find_kedro_project

from hone_runtime.errors import HoneError
from kedro_hone.recipe.plan import Plan, make_plan
from kedro_hone.recipe.schema import read_recipe

_current: dict[str, Mapping[str, Any]] = {}


def find_root() -> Path:
    """Return the folder of the enclosing Kedro project, or the current folder."""
    return find_kedro_project(Path.cwd()) or Path.cwd()


def find_work() -> Path:
    """Return the folder of the project's runs."""
    return find_root() / "data" / "hone"


def configure() -> None:
    """Configure Kedro for the enclosing project, or for this package in a folder with only ``conf/``."""
    if found := find_kedro_project(Path.cwd()):
        bootstrap_project(found)
    else:
        project.configure_project("kedro_hone")


def read_catalog() -> CatalogProtocol[Any, Any]:
    """Return the project's catalog for the environment ``KEDRO_ENV``, outside of a run."""
    session = KedroSession.create(find_root(), save_on_close=False, env=os.environ.get("KEDRO_ENV"))
    return session.load_context().catalog


def set_parameters(parameters: Mapping[str, Any]) -> None:
    """Generate the next pipelines from the value of ``hone``, and discard those that were generated before."""
    _current["hone"] = parameters
    wanted = project.pipelines._requested_pipelines  # noqa: SLF001 - Kedro offers no other way (its issue 2627)
    project.pipelines.configure(f"{project.PACKAGE_NAME}.pipeline_registry")
    project.pipelines.set_requested(wanted)


def read_plan() -> Plan:
    """Return the plan of the current recipe.

    Raises:
        HoneError: ``recipe-invalid``, ``adaptor-unknown`` or ``toolchain-unknown``.
    """
    return make_plan(read_recipe(_current["hone"] if _current else read_parameters()))


def read_parameters() -> Mapping[str, Any]:
    """Return the unchecked recipe in the project's configuration for the environment ``KEDRO_ENV``.

    Raises:
        HoneError: ``recipe-invalid``: there is none, or the parameters cannot be read.
    """
    settings = project.settings
    conf, env = str(find_root() / settings.CONF_SOURCE), os.environ.get("KEDRO_ENV")
    loader = settings.CONFIG_LOADER_CLASS(conf_source=conf, env=env, **settings.CONFIG_LOADER_ARGS)
    parameters = find_parameters(loader)
    if parameters is None:
        hint = (
            "Write a recipe into conf/base/parameters.yml. The least is `hone: {model: {uri: models:/NAME/1}}`; "
            "Tutorial in the documentation shows a whole one, and Recipe in the documentation has all keys."
        )
        why = f"The parameters in {conf} have nothing under `hone`."
        raise HoneError("recipe-invalid", "There is no recipe yet.", why=why, hint=hint)
    return parameters


def find_parameters(loader: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the unchecked recipe that Kedro's configuration loader reads; None if the project has none.

    Raises:
        HoneError: ``recipe-invalid``: a file of parameters is not YAML, or the environment has no folder.
    """
    try:
        found: Mapping[str, Any] | None = loader["parameters"].get("hone")
    except MissingConfigException:
        _check_folder(loader)
        return None
    except yaml.YAMLError as error:
        hint = (
            "Correct the YAML there. The recipe is in conf/base/parameters.yml; Recipe in the documentation lists "
            "its keys."
        )
        raise HoneError("recipe-invalid", "The parameters cannot be read.", why=str(error), hint=hint) from error
    return found


def _check_folder(loader: Any) -> None:
    """Raise ``recipe-invalid`` if the environment has no folder: Kedro then reads no other one."""
    source, env = Path(loader.conf_source), loader.env or loader.default_run_env
    if (source / loader.base_env).is_dir() and not (source / env).is_dir():
        raise HoneError(
            "recipe-invalid",
            f"There is no folder {source.name}/{env}.",
            why="Kedro reads the folder of its environment next to the base's. If it is missing, Kedro reads nothing.",
            hint=f"Make it, `mkdir {source.name}/{env}`; an empty file in it, such as .gitkeep, keeps it in git.",
        )
