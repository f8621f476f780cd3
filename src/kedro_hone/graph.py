"""The current project, and the recipe from which its pipelines are generated.

Kedro registers pipelines, by a function without arguments, before it provides the parameters. So the first hook that
receives a run's parameters stores the recipe here; without a run (``kedro registry list``, kedro-viz) the project's
configuration is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from kedro.config import MissingConfigException
from kedro.framework import project
from kedro.pipeline import Pipeline
from kedro.utils import find_kedro_project

from hone_runtime.errors import HoneError

if TYPE_CHECKING:
    from kedro.framework.context import KedroContext
    from kedro.io import CatalogProtocol

    from kedro_hone.recipe.plan import Plan

_current: dict[str, Mapping[str, Any]] = {}

PARTS: Final = ("pull", "build", "compare", "publish", "assess", "choose")
"""The names of the pipelines, besides that of the whole one."""


class DeferredPipeline(Pipeline):
    """A pipeline that is made at the first access to anything of it."""

    def __init__(self, make: Callable[[], Pipeline]) -> None:
        self._make = make  # the attributes of a pipeline are set when they are needed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_make" not in self.__dict__:  # no attribute of a pipeline, or not yet one itself
            raise AttributeError(name)
        self.__dict__.update(self.__dict__.pop("_make")().__dict__)
        return getattr(self, name)


def is_made(pipeline: Pipeline) -> bool:
    """Return whether a pipeline can be looked into without making it."""
    return "_make" not in vars(pipeline)


def is_below(prefix: str, name: str) -> bool:
    """Return whether the name of a pipeline is one of kedro-hone's below a prefix."""
    return name == prefix or name.startswith(f"{prefix}.")


def find_root() -> Path:
    """Return the folder of the enclosing Kedro project, or the current folder."""
    return find_kedro_project(Path.cwd()) or Path.cwd()


def find_work() -> Path:
    """Return the folder of the project's runs."""
    return find_root() / "data" / "hone"


def separate(folder: Path) -> None:
    """Make a folder with ``conf/`` within another Kedro project a project of its own: Kedro would run the other one."""
    if find_kedro_project(folder) not in (None, folder):
        named = 'package_name = "kedro_hone"\nproject_name = "kedro_hone"\nsource_dir = "conf"\n'
        text = f'[tool.kedro]\n{named}kedro_init_version = "{version("kedro")}"\n'
        (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def configure() -> None:
    """Configure Kedro for the enclosing project, or for this package in a folder with only ``conf/``."""
    from kedro.framework.startup import bootstrap_project  # noqa: PLC0415 - every command of Kedro imports this module

    if found := find_kedro_project(Path.cwd()):
        bootstrap_project(found)
    else:
        project.configure_project("kedro_hone")


def read_catalog() -> CatalogProtocol[Any, Any]:
    """Return the project's catalog for the environment ``KEDRO_ENV``, outside of a run."""
    from kedro.framework.session import KedroSession  # noqa: PLC0415

    session = KedroSession.create(find_root(), save_on_close=False, env=os.environ.get("KEDRO_ENV"))
    context = session.load_context()
    for pipeline in project.pipelines.values():
        len(pipeline.nodes)  # makes it, so that the catalog gets the entries of its datasets
    return context.catalog


def set_parameters(parameters: Mapping[str, Any]) -> None:
    """Generate the next pipelines from the value of ``hone``, and discard those that were generated before."""
    _current["hone"] = parameters
    wanted = project.pipelines._requested_pipelines  # noqa: SLF001 - Kedro offers no other way (its issue 2627)
    project.pipelines.configure(f"{project.PACKAGE_NAME}.pipeline_registry")
    project.pipelines.set_requested(wanted)


def list_pipelines(names: Sequence[str]) -> list[str]:
    """Return the names in this project of some pipelines; without any, that of kedro-hone's whole pipeline.

    A project with pipelines of its own has kedro-hone's below a prefix, which is also the name of the whole. Nothing is
    registered for this: the recipe may still change.
    """
    prefix = find_prefix()
    if prefix is None:
        return [*names]
    return [f"{prefix}.{name}" if name in PARTS else name for name in names] or [prefix]


def find_prefix() -> str | None:
    """Return the prefix of kedro-hone's pipelines in this project; None if they have none."""
    try:
        registry = import_module(f"{project.PACKAGE_NAME}.pipeline_registry")
    except ModuleNotFoundError:
        return None
    prefix: str | None = getattr(getattr(registry, "register_pipelines", None), "prefix", None)
    return prefix


def spare_graph(context: KedroContext) -> None:
    """Let Kedro validate parameters without the pipelines of the recipe, if the session is for others' pipelines.

    Kedro otherwise looks into every registered pipeline, and so makes all of them.
    """
    prefix = find_prefix()
    if prefix is None:
        return
    wanted = project.pipelines._requested_pipelines  # noqa: SLF001 - as above
    if any(is_below(prefix, name) for name in wanted or ()):
        return
    # Kedro overwrites this where pipelines are requested by other names than the default's.
    context._pipelines_to_validate = [name for name in project.pipelines if not is_below(prefix, name)]  # noqa: SLF001


def forget_parameters() -> None:
    """Discard the recipe of an earlier session in this process."""
    _current.clear()


def has_recipe() -> bool:
    """Return whether the current session, or the project's configuration without one, has a recipe.

    Raises:
        HoneError: As ``find_parameters``.
    """
    return bool(_current) or find_parameters(_open_loader()) is not None


def read_plan() -> Plan:
    """Return the plan of the current recipe.

    Raises:
        HoneError: ``recipe-invalid``, ``adaptor-unknown`` or ``toolchain-unknown``.
    """
    from kedro_hone.recipe.plan import make_plan  # noqa: PLC0415
    from kedro_hone.recipe.schema import read_recipe  # noqa: PLC0415

    return make_plan(read_recipe(_current["hone"] if _current else read_parameters()))


def _open_loader() -> Mapping[str, Any]:
    """Return Kedro's loader of the project's configuration for the environment ``KEDRO_ENV``."""
    settings = project.settings
    conf, env = str(find_root() / settings.CONF_SOURCE), os.environ.get("KEDRO_ENV")
    loader: Mapping[str, Any] = settings.CONFIG_LOADER_CLASS(conf_source=conf, env=env, **settings.CONFIG_LOADER_ARGS)
    return loader


def read_entries() -> Mapping[str, Any]:
    """Return the entries of the project's catalog files for the environment ``KEDRO_ENV``, without our defaults."""
    entries: Mapping[str, Any] = _open_loader()["catalog"]
    return entries


def read_parameters() -> Mapping[str, Any]:
    """Return the unchecked recipe in the project's configuration for the environment ``KEDRO_ENV``.

    Raises:
        HoneError: ``recipe-invalid``: there is none, or the parameters cannot be read.
    """
    parameters = find_parameters(_open_loader())
    if parameters is None:
        conf = find_root() / project.settings.CONF_SOURCE
        hint = (
            "Write a recipe into conf/base/parameters.yml. The least is `hone: {model: {uri: models:/NAME/1}}`; "
            "Tutorial in the documentation shows a whole one, and Recipe in the documentation lists all keys."
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
