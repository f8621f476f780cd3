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

from typing import TYPE_CHECKING

from kedro_hone.adaptors.registries import publication
from kedro_hone.adaptors.registries.mlflow.names import iterate_versions

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


def settle(client: MlflowClient, experiment: str, name: str, key: str) -> str | None:
    """Complete or remove what killed publications left.

    Args:
        client: The registry.
        experiment: The experiment of our logged models.
        name: The registered model.
        key: The publication that is about to be made.

    Returns:
        The version of this publication, now complete; None when there is none.
    """
    versions = [version for version in iterate_versions(client, name) if publication.KEY in version.tags]
    done = None
    for version in versions:  # newest first
        mine, unfinished = version.tags[publication.KEY] == key, _is_unfinished(version)
        # With its alias moved, it was killed after its last visible step: everybody may have seen it.
        if not unfinished or _has_alias(client, version) or (mine and done is None):
            if unfinished:
                finish_version(client, name, str(version.version))
            done = done or (str(version.version) if mine else None)
        elif mine or not _is_alive(version):
            client.delete_model_version(version.name, version.version)
            if version.run_id:
                _remove_run(client, experiment, version.run_id)
    _remove_runs(client, experiment, name)
    return done


def finish_version(client: MlflowClient, name: str, version: str) -> None:
    """Say that a version, whose files are complete, is finished; then move its alias."""
    alias = client.get_model_version(name, version).tags.get(publication.PENDING_ALIAS)
    client.set_model_version_tag(name, version, publication.STATE, publication.FINISHED)
    if alias is not None:
        client.set_registered_model_alias(name, alias, version)
        client.delete_model_version_tag(name, version, publication.PENDING_ALIAS)


def _is_unfinished(version: ModelVersion) -> bool:
    tags = version.tags
    return tags.get(publication.STATE) == publication.PUBLISHING or publication.PENDING_ALIAS in tags


def _has_alias(client: MlflowClient, version: ModelVersion) -> bool:
    # What a search returns may lack the aliases.
    aliases = client.get_model_version(version.name, version.version).aliases or ()
    return version.tags.get(publication.PENDING_ALIAS) in aliases


def _is_alive(version: ModelVersion) -> bool:
    changed = version.last_updated_timestamp / 1000
    return publication.is_alive(version.tags.get(publication.PUBLISHER), changed=changed)


def _remove_run(client: MlflowClient, experiment: str, run: str) -> None:
    """Remove a run with its logged models."""
    for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
        client.delete_logged_model(model.model_id)
    client.delete_run(run)


def _remove_runs(client: MlflowClient, experiment: str, name: str) -> None:
    """Remove runs that were killed before they had a version, with their logged models."""
    mark = f"tags.`{publication.STATE}` = '{publication.PUBLISHING}'"
    for run in client.search_runs([experiment], f"{mark} and tags.`{publication.MODEL}` = '{name}'"):
        changed = (run.info.end_time or run.info.start_time) / 1000
        if publication.is_alive(run.data.tags.get(publication.PUBLISHER), changed=changed):
            continue
        if client.search_model_versions(f"run_id='{run.info.run_id}'"):
            client.set_tag(run.info.run_id, publication.STATE, publication.FINISHED)
        else:
            _remove_run(client, experiment, run.info.run_id)
