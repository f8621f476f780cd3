"""Unfinished publications: what a killed one leaves, and how the next completes or removes it.

A publication goes through these states, and can be killed in each:

1. a run and a logged model that say ``hone.state=publishing``, without a version: removed;
2. a version that says ``hone.state=publishing``: its files are complete. The same publication completes it; any
   other removes it;
3. ``hone.state=finished`` with ``hone.pending_alias``: the alias is moved, as above;
4. neither: finished.

Publications of a process that is still running are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow import MlflowClient

from kedro_hone.adaptors.registries.mlflow.versions import iterate_versions
from kedro_hone.adaptors.registries.publication import KEY, is_alive, name_publisher

STATE: Final = "hone.state"
FINISHED: Final = "finished"
PENDING_ALIAS: Final = "hone.pending_alias"
"""The alias that is still to be moved; removed once it was."""
MODEL: Final = "hone.model"
"""On a run: the registered model that it publishes to."""
_PUBLISHING: Final = "publishing"
_PUBLISHER: Final = "hone.publisher"


def make_marks() -> dict[str, str]:
    """Return the tags of what this process is publishing."""
    return {STATE: _PUBLISHING, _PUBLISHER: name_publisher()}


def settle(client: MlflowClient, experiment: str, name: str, key: str) -> str | None:
    """Complete or remove what killed publications to a model left.

    Args:
        client: The registry.
        experiment: The experiment of our logged models.
        name: The registered model.
        key: The publication that is about to be made.

    Returns:
        The version of this publication, now complete; None when there is none.
    """
    done = None
    for version in [version for version in iterate_versions(client, name) if KEY in version.tags]:  # newest first
        number, tags = str(version.version), version.tags
        mine = tags[KEY] == key
        unfinished = tags.get(STATE) == _PUBLISHING or PENDING_ALIAS in tags
        # With its alias moved, it was killed after its last visible step: everybody may have seen it. What a search
        # returns may lack the aliases.
        seen = unfinished and tags.get(PENDING_ALIAS) in (client.get_model_version(name, number).aliases or ())
        if not unfinished or seen or (mine and done is None):
            if unfinished:
                finish_version(client, name, number)
            done = done or (number if mine else None)
        elif mine or not _is_alive(tags, version.last_updated_timestamp):
            client.delete_model_version(name, number)
            if version.run_id:
                _remove_run(client, experiment, version.run_id)
    _remove_runs(client, experiment, name)
    return done


def finish_version(client: MlflowClient, name: str, version: str) -> None:
    """Say that a version, whose files are complete, is finished; then move its alias."""
    alias = client.get_model_version(name, version).tags.get(PENDING_ALIAS)
    client.set_model_version_tag(name, version, STATE, FINISHED)
    if alias is not None:
        client.set_registered_model_alias(name, alias, version)
        client.delete_model_version_tag(name, version, PENDING_ALIAS)


def _remove_runs(client: MlflowClient, experiment: str, name: str) -> None:
    """Remove runs that were killed before they had a version."""
    wanted = f"tags.`{STATE}` = '{_PUBLISHING}' and tags.`{MODEL}` = '{name}'"
    for run in client.search_runs([experiment], wanted):
        if _is_alive(run.data.tags, run.info.end_time or run.info.start_time):
            continue
        if client.search_model_versions(f"run_id='{run.info.run_id}'"):
            client.set_tag(run.info.run_id, STATE, FINISHED)
        else:
            _remove_run(client, experiment, run.info.run_id)


def _remove_run(client: MlflowClient, experiment: str, run: str) -> None:
    """Remove a run with its logged models."""
    for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
        client.delete_logged_model(model.model_id)
    client.delete_run(run)


def _is_alive(tags: Mapping[str, str], changed_ms: int) -> bool:
    return is_alive(tags.get(_PUBLISHER), changed=changed_ms / 1000)
