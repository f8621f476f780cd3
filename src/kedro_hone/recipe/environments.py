"""The environments of the toolchains according to a recipe: interpreters, wheels, and missing environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.outcome import Failed
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.recipe.schema import Recipe


def open_environments(recipe: Recipe) -> EnvironmentStore:
    """Return the store of environments, with the recipe's interpreters first."""
    named = {name: Path(section.python) for name, section in recipe.environments.items()}
    return EnvironmentStore(named=named, wheels=Path(recipe.wheels) if recipe.wheels else None)


def find_environment(
    recipe: Recipe, toolchain: Toolchain, *, build: bool = True, stopped: Callable[[], bool] | None = None
) -> Environment | Failed:
    """Return the environment of a toolchain, built if it is absent, ``build`` is true and the recipe allows it.

    Arguments, failures and errors are those of ``EnvironmentStore.ensure``.
    """
    may_build = build and recipe.missing_toolchains == "build"
    return open_environments(recipe).ensure(toolchain, build=may_build, stopped=stopped)


def require_environments(recipe: Recipe, toolchains: Iterable[Toolchain]) -> None:
    """Check that toolchains have an environment, if a missing one is an error according to the recipe.

    Raises:
        HoneError: ``toolchain-missing``, with every toolchain without an environment.
    """
    if recipe.missing_toolchains != "error":
        return
    found = (find_environment(recipe, toolchain) for toolchain in toolchains)
    if missing := {one.by: one.reason for one in found if isinstance(one, Failed)}:
        raise HoneError(
            "toolchain-missing",
            f"Toolchains that this run may need have no environment: {', '.join(missing)}.",
            why=[f"{name}: {reason}" for name, reason in missing.items()],
            hint="Build them, or correct hone.environments; or write `missing_toolchains: skip` or `build` in the "
            "recipe.",
        )
