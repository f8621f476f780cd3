"""The Action's inputs, which ``action.yml`` describes and passes in the environment, and the run's options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from github_action_toolkit import get_user_input
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, ValidationError

from hone_runtime.errors import HoneError
from hone_runtime.text import clean_text
from kedro_hone.github.context import Context

REMOTE: Final = "data_remote"
"""The runtime parameter with the name of the DVC remote for a catalog."""
_MOST_VALUES: Final = 100_000
"""The most values in a recipe: with YAML aliases a few lines can contain billions."""
_ROOM: Final = 100  # the most characters of a check run's name that a page shows


class Inputs(BaseModel):
    """The inputs of one call; an empty input means the project's setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    project: str = "."
    model: str = ""
    data: str = ""
    target: str = ""
    group: str = ""
    task: str = ""
    trust: str = ""
    max_drop: str = ""
    recipe: str = ""
    params: str = ""
    data_remote: str = ""
    publish: Literal["never", "on-pass"] = "never"
    comment: Literal["true", "false"] = "true"
    comment_author: str = "github-actions[bot]"
    fail_on: Literal["fail", "inconclusive", "never"] = "fail"


def read_inputs() -> Inputs:
    """Read the inputs from ``INPUT_MODEL`` and the like; inputs that are not set have their default.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    given = {name: (get_user_input(name) or "").strip() for name in Inputs.model_fields}
    try:
        return Inputs.model_validate({name: value for name, value in given.items() if value})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]).replace("_", "-")
        raise explain(f"The input {name!r} cannot be {first['input']!r}.", why=f"{first['msg']}.") from error


def disable_publishing(inputs: Inputs, context: Context) -> Inputs:
    """Return the inputs with ``publish: never`` unless the event is known to be of the default branch.

    Otherwise each push to a pull request would move the alias to a winner from a model, data and gates that no person
    has approved. The events that publish are listed (``Context.merged``), not those that do not publish, since GitHub
    adds events.

    Raises:
        HoneError: ``action-input-invalid`` for a fork's code: this step runs with the rights to publish, so the code
            could publish anything itself.
    """
    if inputs.publish == "never" or context.merged:
        return inputs
    if context.foreign:
        raise explain(
            "The input 'publish' cannot be 'on-pass' for a pull request of a fork.",
            why="Untrusted code would run where winners are published.",
            hint="Write `publish: ${{ github.event_name == 'push' && 'on-pass' || 'never' }}`, and give forks a runner "
            "that does not reach the registry.",
        )
    return inputs.model_copy(update={"publish": "never"})


def format_check(inputs: Inputs, context: Context) -> str:
    """Return the name of a step's check run, such as ``kedro-hone (models:/digits, gpu)``; a branch may require it.

    It contains the step's name, or otherwise the given inputs, and the values of the job's leg of the matrix. Two steps
    have the same check name only if they have the same step name.
    """
    given = ["" if inputs.project == "." else inputs.project, inputs.model]
    given += [inputs.data, inputs.target, inputs.group, inputs.task, inputs.trust, inputs.max_drop]
    given += [inputs.recipe, inputs.params, inputs.data_remote]
    parts = [" ".join(part.split()) for part in ([inputs.name] if inputs.name else given) + [context.leg]]
    label = clean_text(", ".join(filter(None, parts)))
    if len(label) > _ROOM:
        label = f"{label[:_ROOM]}… {context.step}"
    return f"kedro-hone ({label})" if label else "kedro-hone"


def write_options(inputs: Inputs, workspace: Path, file: Path) -> None:
    """Write the options of ``kedro run`` into a file for its ``--config``: no value passes through a shell.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    check_project(workspace, inputs.project)
    parameters = _read_parameters(inputs, workspace)
    options: dict[str, Any] = {"params": parameters} if parameters else {}
    if inputs.publish == "never":
        options["pipelines"] = "assess"
    file.write_text(yaml.safe_dump({"run": options}))


def _read_parameters(inputs: Inputs, workspace: Path) -> dict[str, Any]:
    parts: list[Any] = [_read_recipe(workspace / inputs.recipe)] if inputs.recipe else []
    lines = _split_params(inputs.params)
    if inputs.model:
        parts.append({"hone": {"model": {"uri": inputs.model}}})
    if inputs.data_remote:
        _check_remote(workspace / inputs.project)
        parts.append({REMOTE: inputs.data_remote})
    return _merge(parts, lines)


def read_params(text: str) -> dict[str, Any]:
    """Return the input ``params`` as nested mappings.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    return _merge([], _split_params(text))


def _split_params(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if wrong := [line for line in lines if "${" in line or not re.fullmatch(r"[\w.\-\[\]]+=.*", line)]:
        why = "It is not of the form name=value, or has a ${…}, which is not replaced here."
        raise explain(f"The input 'params' has the line {wrong[0]!r}.", why=why)
    return lines


def _merge(parts: list[Any], lines: list[str]) -> dict[str, Any]:
    try:
        merged = OmegaConf.merge({}, *parts, OmegaConf.from_dotlist(lines))
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise explain("The input 'params' cannot be read.", why=str(error)) from error
    found: dict[str, Any] = OmegaConf.to_container(merged)  # type: ignore[assignment]  # a mapping stays one
    return found


def check_project(workspace: Path, name: str) -> None:
    """Refuse a project that is no folder below the workspace.

    Raises:
        HoneError: ``action-input-invalid``.
    """
    project = (workspace / name).resolve()
    if not project.is_dir() or not project.is_relative_to(workspace.resolve()):
        why = "It is not a folder below the workspace, which is where actions/checkout puts the repository."
        raise explain(f"The input 'project' cannot be {name!r}.", why=why)


def _read_recipe(path: Path) -> dict[str, Any]:
    try:
        recipe = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise explain(f"The recipe {path} cannot be read.", why=str(error)) from error
    if sum(1 for _ in islice(_list_values(recipe), _MOST_VALUES)) == _MOST_VALUES:
        raise explain(f"The file {path} is not a recipe.", why=f"It has over {_MOST_VALUES} values.")
    if not isinstance(recipe, dict) or set(recipe) != {"hone"} or not isinstance(recipe["hone"], dict):
        raise explain(f"The file {path} is not a recipe.", why="A recipe's only key is 'hone', with settings below it.")
    return recipe


def _list_values(tree: object) -> Iterator[object]:
    """Yield the values in nested dicts and lists, each as often as it occurs."""
    left = [tree]
    while left:
        one = left.pop()
        yield one
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


def _check_remote(project: Path) -> None:
    """Refuse a remote that no catalog reads, which Kedro would ignore."""
    if not any(REMOTE in file.read_text() for file in project.glob("conf/**/catalog*.y*ml")):
        hint = f"Write `remote: ${{runtime_params:{REMOTE},null}}` into the catalog's DVC datasets."
        raise explain("The input 'data-remote' changes nothing.", why="No catalog reads it.", hint=hint)


def explain(what: str, *, why: str, hint: str = "Correct the step that uses the action.") -> HoneError:
    """Return the error ``action-input-invalid``."""
    return HoneError("action-input-invalid", what, why=why, hint=hint)
