"""The parameters and environment of a run's command line, for a later choice among the candidates of its race."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

from kedro_hone.hooks.membership import has_own

_FILE: Final = "runtime.json"


@dataclass(frozen=True)
class Runtime:
    """The parameters and the environment that the command line gave to a run."""

    params: dict[str, Any] = field(default_factory=dict)
    env: str | None = None


class RuntimeHooks:
    """Stores the command line's values of a run that races: its race is only valid for the same recipe."""

    @hook_impl
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]
    ) -> None:
        """Write them next to the runs; a run without a race does not replace those of the last race."""
        if not has_own(pipeline) or "race" not in pipeline.all_outputs() or "run" not in pipeline.inputs():
            return
        from kedro_hone.core.store.disk import write_file  # noqa: PLC0415 - every command of Kedro imports settings

        folder: Path = catalog.load("run").root.parent
        folder.mkdir(parents=True, exist_ok=True)
        given = {"params": run_params.get("runtime_params") or {}, "env": run_params.get("env")}
        write_file(folder / _FILE, json.dumps(given, default=str).encode())
        (folder / _FILE).chmod(0o600)  # parameters may contain the password of a URI


def read_runtime(folder: Path) -> Runtime:
    """Return the command line's values of the last run that raced; empty if unknown."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return Runtime(**json.loads((folder / _FILE).read_bytes()))
    return Runtime()
