"""The arguments of ``kedro hone optimize`` for a step with the input ``data``, which needs no recipe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from hone_runtime.errors import HoneError
from kedro_hone.github.inputs import Inputs, check_project, explain, read_params

DERIVED: Final = Path("data", "hone", "optimize")
"""The folder of the derived project, below the input ``project``. ``action.yml`` caches the store in it."""
_OF_DATA: Final = ("target", "group", "task", "trust", "max_drop")
_OF_RECIPE: Final = ("recipe", "data_remote")


def check_combination(inputs: Inputs) -> None:
    """Refuse inputs that exclude each other: a step has a recipe, or its recipe is derived from ``data``.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    given = [name for name in (_OF_RECIPE if inputs.data else _OF_DATA) if getattr(inputs, name)]
    if given and not inputs.data:
        raise _explain(given[0], "needs the input 'data'", "It is an option of a recipe that is derived from the data.")
    if given:
        raise _explain(given[0], "excludes the input 'data'", "With 'data' a recipe is derived, and none is read.")
    if inputs.data and not inputs.model:
        raise _explain("data", "needs the input 'model'", "A recipe is derived from a model and its data.")


def write_arguments(inputs: Inputs, workspace: Path) -> list[str]:
    """Return the arguments of ``kedro hone optimize``, which is started in the project's folder without a shell.

    Each value is part of its option's argument, and the model comes last, so that none is read as an option.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    check_project(workspace, inputs.project)
    data = [f"--data={line.strip()}" for line in inputs.data.splitlines() if line.strip()]
    named = {"target": inputs.target, "group": inputs.group, "task": inputs.task, "max-drop": inputs.max_drop}
    options = [f"--{name}={value}" for name, value in named.items() if value]
    trust = [f"--trust={one}" for one in inputs.trust.replace(",", " ").split()]
    settings = [f"--set={name}={_format(value)}" for name, value in _list_settings(inputs)]
    publish = "--publish" if inputs.publish == "on-pass" else "--no-publish"
    return [*data, *options, *trust, *settings, publish, f"--folder={DERIVED}", "--", inputs.model]


def clear_project(folder: Path, workspace: Path) -> None:
    """Remove everything from a derived project but its store: the checkout could bring settings that lie over others.

    Raises:
        HoneError: ``action-input-invalid``: a link in the checkout leads out of the workspace.
    """
    if not folder.resolve().is_relative_to(workspace.resolve()):
        why = f"A link leads {DERIVED} out of the workspace, where the recipe is derived."
        raise explain("The checkout has no place for the derived recipe.", why=why, hint="Remove the link.")
    if folder.is_symlink():
        folder.unlink()
    store = folder / "data" / "hone" / "store"
    for place in (folder, folder / "data", folder / "data" / "hone"):
        for path in place.iterdir() if place.is_dir() and not place.is_symlink() else ():
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            elif path != store and path not in store.parents:
                shutil.rmtree(path)


def _list_settings(inputs: Inputs) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the recipe in ``params`` with their values."""
    given = read_params(inputs.params)
    if other := [name for name in given if name != "hone"]:
        raise explain(f"The input 'params' sets {other[0]!r}.", why="With 'data' it sets only keys below 'hone'.")
    for name, value in _flatten(given.get("hone", {})):
        if name == "publish" or name.startswith("publish.enabled"):
            raise explain("The input 'params' sets hone.publish.enabled.", why="The input 'publish' decides that.")
        yield name, value


def _flatten(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield leaves by their dotted names; a mapping with a dot in a key, such as an adaptor's name, is a leaf."""
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value and not any("." in str(one) for one in value):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def _format(value: object) -> str:
    """Return a value as YAML in one line; a scalar has no end mark."""
    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _explain(name: str, what: str, why: str) -> HoneError:
    return explain(f"The input '{name.replace('_', '-')}' {what}.", why=why)
