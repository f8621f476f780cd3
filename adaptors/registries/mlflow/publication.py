"""Write versions, and clean up after killed publications.

A killed publication may leave a run and a logged model with ``hone.state=publishing`` and without a version; these are
removed. A version with this tag, or with ``hone.pending_alias``, is complete except for its alias: the same publication
completes it, any other removes it. Publications of a process that is still running are not touched.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mlflow import MlflowClient
from mlflow.entities import LoggedModel, Metric, Run
from mlflow.exceptions import MlflowException

from hone_runtime.contract.aliases import PULL, find_move, format_record_name
from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.contract.registry import explain_refused
from hone_runtime.contract.tags import KEY
from kedro_hone.adaptors.registries.mlflow import connection, versions
from kedro_hone.adaptors.registries.mlflow.servers import read_server
from kedro_hone.adaptors.registries.model_folder import tag_files, write_winner
from kedro_hone.core.machine.processes import identify_process, may_be_alive

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import Model

STATE: Final = "hone.state"
FINISHED: Final = "finished"
PENDING_ALIAS: Final = "hone.pending_alias"
"""The tag with the alias that is still to be moved; removed after the move."""
_MODEL: Final = "hone.model"
"""The tag of a run with the registered model that it publishes to."""
_FOLDER: Final = "model"
"""The path of the winner's files among those of a run."""
_PUBLISHING: Final = "publishing"
_PUBLISHER: Final = "hone.publisher"
REFUSED: Final = "INVALID_PARAMETER_VALUE"
"""MLflow's error code for a name that it does not accept."""


class Logged(NamedTuple):
    """A winner's files, complete on the server.

    Attributes:
        source: The location of the files, in a version's form.
        run: The run that they belong to.
        model: The id of the logged model; None on a server without logged models.
        tags: The tag with the digest of the files.
    """

    source: str
    run: str
    model: str | None
    tags: dict[str, str]


def log_model(
    client: MlflowClient, experiment: str, winner: ProvenWinner, *, name: str, metrics: Mapping[str, float]
) -> Logged:
    """Upload a winner's complete model folder with its metrics, as the logged model of a separate run.

    A server of MLflow 2 has no logged models: there the files belong to the run.
    """
    marks, server = {_MODEL: name, **make_marks()}, read_server(client.tracking_uri)
    made: list[LoggedModel] = []
    runs: list[Run] = []

    def identify(described: Model) -> None:
        runs.append(client.create_run(experiment, run_name=f"publish-{name}", tags=marks))
        described.run_id, described.artifact_path = runs[0].info.run_id, _FOLDER
        if server.has_logged_models:
            allowed = re.sub(r"[/:.%\"']", "-", name)  # a registered model's name may contain more characters
            run = described.run_id
            made.append(client.create_logged_model(experiment, name=allowed, source_run_id=run, tags=dict(marks)))
            described.model_id = described.model_uuid = made[0].model_id
            # MLflow writes the location, which may be a folder of this machine, and is packed into images.
            described.artifact_path = made[0].model_uri

    with tempfile.TemporaryDirectory() as folder:
        write_winner(Path(folder), winner, name=name, identify=identify)
        run, model = str(runs[0].info.run_id), made[0] if made else None
        written = tag_files(Path(folder))
        with connection.hide_progress():
            if model is None:
                client.log_artifacts(run, folder, _FOLDER)
            else:
                client.log_model_artifacts(model.model_id, folder)
    if model is not None:
        client.finalize_logged_model(model.model_id, "READY")
    now, number = int(time.time() * 1000), model and model.model_id
    rows = [Metric(key, value, now, 0, model_id=number, run_id=run) for key, value in metrics.items()]
    if rows:
        client.log_batch(run, metrics=rows)
    client.set_terminated(run)
    if model is None:
        return Logged(f"{str(runs[0].info.artifact_uri).rstrip('/')}/{_FOLDER}", run, None, written)
    # A server resolves ``models:/m-…`` itself. Without a server, MLflow would look in its global tracking URI, which
    # belongs to others; so the version has the location of the files.
    source = model.model_uri if connection.has_server(client.tracking_uri) else model.artifact_location
    return Logged(source, run, model.model_id, written)


def make_marks() -> dict[str, str]:
    """Return the tags of a publication in progress by this process."""
    return {STATE: _PUBLISHING, _PUBLISHER: identify_process()}


def recover(client: MlflowClient, experiment: str, name: str, key: str) -> str | None:
    """Complete or remove the remains of killed publications to a model.

    Returns the version of the publication ``key``, which is about to be made and must be finished; None if absent.
    """
    done = None
    for version in [one for one in versions.iterate_versions(client, name) if KEY in one.tags]:  # newest first
        number, tags = str(version.version), version.tags
        mine = tags[KEY] == key
        unfinished = tags.get(STATE) == _PUBLISHING or PENDING_ALIAS in tags
        # If its alias was moved, it was killed after its last visible step: everybody may have seen it. The results of
        # a search may lack the aliases.
        seen = unfinished and tags.get(PENDING_ALIAS) in (client.get_model_version(name, number).aliases or ())
        if not unfinished or seen or (mine and done is None):
            if unfinished and not mine:
                finish_version(client, name, number, tags.get(PENDING_ALIAS))
            done = done or (number if mine else None)
        elif mine or not _is_alive(tags, version.last_updated_timestamp):
            client.delete_model_version(name, number)
            if version.run_id:
                _remove_run(client, experiment, version.run_id)
    _remove_runs(client, experiment, name)
    return done


def finish_version(
    client: MlflowClient, name: str, version: str, alias: str | None, *, before: Mapping[str, str] | None = None
) -> str:
    """Mark a version, whose files are complete, as finished; then move an alias to it, unless it is there.

    If the alias then points to it, its description explains how to load it.

    An alias that others moved since ``before`` is not moved; their move is returned as a clause. MLflow cannot compare
    and move in one step: a move by others in between is overwritten.

    Raises:
        HoneError: ``recipe-invalid``: the server refuses the alias. The version then no longer waits for it.
    """
    known, refused, note = client.get_model_version(name, version), None, ""
    if known.tags.get(STATE) != FINISHED:
        client.set_model_version_tag(name, version, STATE, FINISHED)
    if alias is not None and alias not in (known.aliases or ()):
        ours = versions.find_given(client, name, alias, pull=known.tags.get(PULL))
        note = find_move(alias, before=before, now=versions.read_aliases(client, name), ours=ours)
        try:
            if not note:
                client.set_registered_model_alias(name, alias, version)
        except MlflowException as error:
            if error.error_code != REFUSED:
                raise
            refused = error
    if alias is not None and not note and refused is None:
        if PULL in known.tags:
            client.set_registered_model_tag(name, versions.RECORD + format_record_name(alias), version)
        _describe_loading(client, known, alias)
    if PENDING_ALIAS in known.tags:
        client.delete_model_version_tag(name, version, PENDING_ALIAS)
    if refused is not None:
        what = f"models:/{name}/{version} is published, but the registry refuses the alias {alias!r}."
        raise explain_refused(what, str(refused)) from refused
    return note


def _describe_loading(client: MlflowClient, known: ModelVersion, alias: str) -> None:
    """Add loading instructions to a winner's description; without an alias on it, they would load another version."""
    call = f'Load it with `kedro_hone.load("models:/{known.name}@{alias}")`.'
    if known.description and KEY in known.tags and call not in known.description:
        client.update_model_version(known.name, known.version, f"{known.description.rstrip()}\n\n{call}\n")


def _remove_runs(client: MlflowClient, experiment: str, name: str) -> None:
    """Remove runs that were killed before they had a version."""
    wanted = f"tags.`{STATE}` = '{_PUBLISHING}' and tags.`{_MODEL}` = {versions.quote(name)}"
    for run in client.search_runs([experiment], wanted):
        if _is_alive(run.data.tags, run.info.end_time or run.info.start_time):
            continue
        if client.search_model_versions(f"run_id='{run.info.run_id}'"):
            client.set_tag(run.info.run_id, STATE, FINISHED)
        else:
            _remove_run(client, experiment, run.info.run_id)


def _remove_run(client: MlflowClient, experiment: str, run: str) -> None:
    """Remove a run with its logged models."""
    if read_server(client.tracking_uri).has_logged_models:
        for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
            client.delete_logged_model(model.model_id)
    client.delete_run(run)


def _is_alive(tags: Mapping[str, str], changed_ms: int) -> bool:
    return may_be_alive(tags.get(_PUBLISHER), changed=changed_ms / 1000)
