"""Kedro's settings of this project, and those that other projects import."""

from __future__ import annotations

from typing import Any

from kedro_hone.hooks.interrupt import InterruptHooks
from kedro_hone.hooks.progress import ProgressHooks
from kedro_hone.hooks.recipe import RecipeHooks
from kedro_hone.hooks.runtime import RuntimeHooks
from kedro_hone.hooks.verdict import VerdictHooks

HOOKS = (RecipeHooks(), ProgressHooks(), InterruptHooks(), VerdictHooks(), RuntimeHooks())
CONFIG_LOADER_ARGS = {"base_env": "base", "default_run_env": "local", "merge_strategy": {"parameters": "soft"}}
# kedro-mlflow 2.0.3, if only installed, breaks every run with mlflow >= 3.17; the underscore is needed. kedro-telemetry
# sends usage data unless users object; in a folder with only conf/ they had no opportunity to object.
DISABLE_HOOKS_FOR_PLUGINS = ("kedro_mlflow", "kedro-telemetry")

# The names that `from kedro_hone.settings import *` adds to a project's settings; its configuration loader stays.
__all__ = ["DISABLE_HOOKS_FOR_PLUGINS", "HOOKS"]


def merge_into(settings: dict[str, Any]) -> None:
    """Add kedro-hone's hooks to the settings of a project that has hooks of its own, as ``merge_into(globals())``.

    All other values stay as they are; kedro-mlflow is disabled besides the plug-ins that the project disables.
    """
    theirs = tuple(hook for hook in settings.get("HOOKS", ()) if hook not in HOOKS)
    settings["HOOKS"] = (*HOOKS, *theirs)
    disabled = settings.get("DISABLE_HOOKS_FOR_PLUGINS", ())
    settings["DISABLE_HOOKS_FOR_PLUGINS"] = tuple(dict.fromkeys((*disabled, DISABLE_HOOKS_FOR_PLUGINS[0])))
