"""Kedro's settings of this project."""

CONFIG_LOADER_ARGS = {"base_env": "base", "default_run_env": "local", "merge_strategy": {"parameters": "soft"}}

from kedro_hone.settings import *  # noqa: E402, F403 - its hooks, and kedro-mlflow's guard
