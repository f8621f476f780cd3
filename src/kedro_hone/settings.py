"""Kedro's settings of this project."""

from __future__ import annotations

from kedro_hone.hooks.interrupt import InterruptHooks
from kedro_hone.hooks.progress import ProgressHooks
from kedro_hone.hooks.recipe import RecipeHooks
from kedro_hone.hooks.runtime import RuntimeHooks
from kedro_hone.hooks.verdict import VerdictHooks

HOOKS = (RecipeHooks(), ProgressHooks(), InterruptHooks(), VerdictHooks(), RuntimeHooks())
CONFIG_LOADER_ARGS = {"base_env": "base", "default_run_env": "local", "merge_strategy": {"parameters": "soft"}}
# kedro-mlflow 2.0.3, if only installed, breaks every run with mlflow >= 3.17; the underscore is needed. kedro-telemetry
# sends usage data unless users object, and in a folder with only conf/ they were not asked.
DISABLE_HOOKS_FOR_PLUGINS = ("kedro_mlflow", "kedro-telemetry")
