"""The texts that are added to a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kedro_hone.derivation.entries import quote, write_entry

STAR: Final = "from kedro_hone.settings import *  # noqa: E402, F403 - its hooks, and kedro-mlflow's guard\n"
MERGE: Final = """\
from kedro_hone.settings import merge_into  # noqa: E402

merge_into(globals())  # hooks of kedro-hone beside those above
"""
REGISTRY: Final = """\
from kedro_hone.pipeline_registry import add_pipelines  # noqa: E402

register_pipelines = add_pipelines(register_pipelines)  # hone, hone.pull, …; __default__ stays as it is
"""
LISTEN: Final = """\
# Which registry events start a run by `kedro hone listen`; Listen to a registry in the documentation has every key.
rules:
  - name: all
    models: "*"
    events: [version_created]
secrets:
  mlflow: HONE_MLFLOW_SECRET
  token: HONE_LISTEN_TOKEN
"""
WORKFLOW: Final = """\
# Assess the model on each pull request; Run as a GitHub Action in the documentation has every input.
name: hone
on:
  pull_request:
    paths: ["conf/**", "data/**"]
  push:
    branches: [main]
permissions: {contents: read, pull-requests: write, checks: write, actions: read}
jobs:
  assess:
    runs-on: ubuntu-24.04
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with: {persist-credentials: false, fetch-depth: 0}
      # Replace <owner> by the owner of kedro-hone's repository, and v1 by the digest of a commit.
      - uses: <owner>/kedro-hone@v1
        env:
          MLFLOW_TRACKING_URI: ${{ vars.MLFLOW_TRACKING_URI }}
"""


def write_recipe(source: str) -> str:
    """Return the block of the recipe, for the model at a URI or path."""
    return f"""\
# What kedro-hone optimizes, and what a winner must prove. Recipe in its documentation has every key.
hone:
  model:
    uri: {quote(source)}
  program:
    name: fidelity  # compares outputs with the source's; others, such as tabular-classification, need labels
  shapes:
    batch1: {{batch: 1}}
  gates:
    speedup: 1.05
    drop: 0.02
"""


def write_entries(paths: Mapping[str, str]) -> str:
    """Return the entries of the data, for the path of each split."""
    head = "# The data of kedro-hone: three files that share no row. Data in its documentation has other entries.\n"
    return head + "".join(f"{write_entry(name, path)}\n" for name, path in paths.items())
