"""The registered pipelines, generated from the recipe.

Settings and registry of a project are imported by every command of Kedro. So the pipelines, and what they import, are
made when one of them is first looked into.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

from kedro.framework import project
from kedro.pipeline import Pipeline

from kedro_hone.graph import PARTS, DeferredPipeline, has_recipe, is_below, read_plan

PREFIX: Final = "hone"


def register_pipelines(prefix: str | None = None) -> dict[str, Pipeline]:
    """Return the pipelines of the recipe by name.

    Args:
        prefix: None for a project that has no other pipelines. Otherwise the name of the whole pipeline, and the
            beginning of the others' names: ``hone``, ``hone.pull`` and so on. ``__default__`` is then not among them.

    Returns:
        ``pull``, ``build``, ``compare``, ``publish``, ``assess`` (all but publish) and ``choose``; without a prefix
        also ``__default__`` and ``demo``. With a prefix and without a recipe none.
    """
    if prefix is None:
        from kedro_hone.pipelines import demo  # noqa: PLC0415

        return {**_make_pipelines(), "demo": demo.create_pipeline()}
    if not has_recipe():
        return {}
    make = cache(_make_pipelines)
    names = {prefix: "__default__", **{f"{prefix}.{part}": part for part in PARTS}}
    return {name: DeferredPipeline(partial(_take, make, part)) for name, part in names.items()}


def add_pipelines(theirs: Callable[[], Mapping[str, Pipeline]], prefix: str = PREFIX) -> Callable[[], dict[str, Any]]:
    """Return a project's ``register_pipelines`` with kedro-hone's pipelines added.

    ```python
    register_pipelines = add_pipelines(register_pipelines)
    ```

    Kedro's ``find_pipelines`` fails for a requested pipeline that the project's package does not contain. So the
    project's function is called without kedro-hone's among those requested, and not at all if no other is.
    """

    def register() -> dict[str, Pipeline]:
        wanted = project.pipelines._requested_pipelines  # noqa: SLF001 - Kedro offers no other way
        others = None if wanted is None else [name for name in wanted if not is_below(prefix, name)]
        try:
            project.pipelines.set_requested(others)
            found = dict(theirs()) if others is None or others else {}
        finally:
            project.pipelines.set_requested(wanted)
        return found if wanted is not None and others == wanted else {**found, **register_pipelines(prefix)}

    register.prefix = prefix  # type: ignore[attr-defined]  # for ``graph.list_pipelines``
    return register


def _take(make: Callable[[], Mapping[str, Pipeline]], name: str) -> Pipeline:
    return make()[name]


def _make_pipelines() -> dict[str, Pipeline]:
    """Return the pipelines of the recipe, without the demo's."""
    from kedro_hone.pipelines import build, compare, publish, pull  # noqa: PLC0415

    plan = read_plan()
    with warnings.catch_warnings():
        # One namespace feeds another here, and Kedro warns that each such dataset may be misspelt.
        warnings.filterwarnings("ignore", message="One or more dataset names contain")
        parts = {
            "pull": pull.create_pipeline(plan),
            "build": build.create_pipeline(plan),
            "compare": compare.create_pipeline(plan),
            "publish": publish.create_pipeline(),
        }
    assess = parts["pull"] + parts["build"] + parts["compare"]
    whole = {"assess": assess, "__default__": assess + parts["publish"]}
    return {**parts, **whole, "choose": compare.create_choice_pipeline(plan)}
