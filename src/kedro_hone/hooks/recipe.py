"""The hooks that connect a Kedro run with its recipe."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from kedro.config import MissingConfigException
from kedro.framework import project
from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from hone_runtime.errors import HoneError, combine
from kedro_hone.graph import find_parameters, find_root, forget_parameters, is_made, set_parameters, spare_graph
from kedro_hone.hooks.logs import configure_logging
from kedro_hone.hooks.membership import has_own, is_own, list_datasets

if TYPE_CHECKING:
    from hone_runtime.values.samples import TrackedFile

GATE = "gate"
_NEEDED = ("params:hone", "store", "run")


class RecipeHooks:
    """Checks the recipe before anything starts, and generates the pipelines from it.

    In a project without a recipe, and for a run without a node of kedro-hone, it changes nothing.
    """

    def __init__(self) -> None:
        self._project: Path | None = None
        self._files: dict[str, TrackedFile] = {}

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Read the run's parameters, with ``--params`` and ``--env``, and check the recipe."""
        # ``context.params`` would also read them, but it first registers the pipelines with the wrong recipe.
        parameters = find_parameters(context.config_loader)
        self._project = None if parameters is None else context.project_path
        if parameters is None:
            forget_parameters()
            return
        # Imported here, as below: settings are imported by every command of Kedro, also in a project without a recipe.
        from kedro_hone.recipe.schema import read_recipe  # noqa: PLC0415

        read_recipe(parameters)
        set_parameters(parameters)
        _require_catalog(context)
        spare_graph(context)

    @hook_impl
    def after_catalog_created(self, catalog: CatalogProtocol[Any, Any], save_version: str | None) -> None:
        """Add the catalog's entries that users need not write."""
        if self._project is not None:
            from kedro_hone.datasets.defaults import add_defaults  # noqa: PLC0415

            nodes = chain.from_iterable(pipeline.nodes for pipeline in filter(is_made, project.pipelines.values()))
            add_defaults(catalog, list_datasets(nodes), project=self._project, version=save_version)

    @hook_impl(tryfirst=True)  # the other hooks load the run's folder from the catalog
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]
    ) -> None:
        """Check the program, the metric and the gate split as far as possible before the model is pulled."""
        if self._project is None or not has_own(pipeline):
            return
        from kedro_hone.datasets.defaults import DATA, add_defaults, check_names  # noqa: PLC0415
        from kedro_hone.datasets.ordinary import load_split, pin_entries  # noqa: PLC0415

        configure_logging(self._project)
        # Here only the nodes of this run count: another pipeline may give one of the names another meaning.
        names = list_datasets(pipeline.nodes)
        check_names(catalog, names)
        add_defaults(catalog, names, project=self._project, version=run_params.get("run_id"))
        inputs = pipeline.inputs()
        _check_catalog(sorted(DATA & inputs), catalog)
        read = DATA & {name for node in pipeline.nodes if is_own(node) for name in node.inputs}
        shared = {name for node in pipeline.nodes if not is_own(node) for name in (*node.inputs, *node.outputs)}
        pin_entries(catalog, sorted(read), shared=shared, project=self._project)
        self._files.clear()
        if inputs.issuperset((*_NEEDED, GATE)):
            from kedro_hone.search.preflight import collect_errors, find_problems  # noqa: PLC0415

            recipe, store, run = (catalog.load(name) for name in _NEEDED)

            def load(name: str) -> None:
                self._files[name] = load_split(catalog, name, project=self._project or find_root())

            unread = list(collect_errors(partial(load, name) for name in sorted(DATA & inputs)))
            problems = find_problems(gate=self._files.get(GATE), recipe=recipe, store=store, run=run)
            if problems := [*unread, *problems]:
                raise combine(problems)

    @hook_impl
    def before_node_run(
        self, node: Node, catalog: CatalogProtocol[Any, Any], inputs: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Give kedro-hone's nodes the files of ordinary datasets, not the objects that Kedro loaded from them."""
        if not is_own(node):
            return None
        from hone_runtime.values.samples import TrackedFile  # noqa: PLC0415
        from kedro_hone.datasets.defaults import DATA  # noqa: PLC0415
        from kedro_hone.datasets.ordinary import check_unchanged, load_split  # noqa: PLC0415

        found = {}
        for name in sorted(DATA & inputs.keys()):
            file = inputs[name]
            if not isinstance(file, TrackedFile):
                file = found[name] = load_split(catalog, name, project=self._project or find_root())
            check_unchanged(self._files.setdefault(name, file), file)
        return found


def _require_catalog(context: KedroContext) -> None:
    """Raise ``catalog-incomplete`` if the project's configuration has no readable catalog."""
    try:
        context.config_loader["catalog"]
    except (MissingConfigException, yaml.YAMLError) as error:
        missing = isinstance(error, MissingConfigException)
        hint = _write_lines(("calibration", "search", "gate")) if missing else "Correct the YAML there."
        what = "There is no catalog." if missing else "The catalog cannot be read."
        raise HoneError("catalog-incomplete", what, why=str(error), hint=hint) from error


def _check_catalog(names: Iterable[str], catalog: CatalogProtocol[Any, Any]) -> None:
    """Raise ``catalog-incomplete`` if the catalog lacks a split of the data."""
    if missing := [name for name in names if name not in catalog]:
        raise HoneError(
            "catalog-incomplete",
            f"The catalog has no entry {missing[0]!r}.",
            why=f"Not in conf/*/catalog.yml: {', '.join(missing)}; these are your data, and no node makes them.",
            hint=_write_lines(missing),
        )


def _write_lines(names: Iterable[str]) -> list[str]:
    from kedro_hone.derivation.entries import write_entry  # noqa: PLC0415

    said = "Add to conf/base/catalog.yml, with the paths of your own files:"
    return [said, *map(write_entry, names)]
