"""MLflow's model registry: ``models:/name/version`` and ``models:/name@alias``.

Of a killed publication, a run and a logged model that say ``hone.state=publishing``, and have no version, are removed.
A version that says so, or has ``hone.pending_alias``, is complete but for its alias: the same publication completes it,
any other removes it. Publications of a process that is still running are not touched.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import mlflow
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import LoggedModel, Metric
from mlflow.exceptions import MlflowException

from kedro_hone.adaptors.registries.mlflow import connection, versions
from kedro_hone.adaptors.registries.model_folder import lock_publication, write_winner
from kedro_hone.core.contract.aliases import PULL, find_move, name_record
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import KEY, Publication, VersionInfo, check_names, derive_key, explain_refused
from kedro_hone.core.errors import HoneError
from kedro_hone.core.machine.processes import may_be_alive, name_process
from kedro_hone.core.text import hide_secrets

if TYPE_CHECKING:
    from mlflow.models import Model

EXPERIMENT: Final = "kedro-hone"
_STATE: Final = "hone.state"
_FINISHED: Final = "finished"
_PENDING_ALIAS: Final = "hone.pending_alias"
"""The alias that is still to be moved; removed once it was."""
_MODEL: Final = "hone.model"
"""On a run: the registered model that it publishes to."""
_PUBLISHING: Final = "publishing"
_PUBLISHER: Final = "hone.publisher"
_REFUSED: Final = "INVALID_PARAMETER_VALUE"
"""MLflow's word for a name that it does not take."""


class MlflowRegistry:
    """A registry of MLflow's, on a server or in a SQLite file; it is contacted at the first use.

    Without a ``tracking_uri`` it is where MLflow is configured to look (``MLFLOW_TRACKING_URI``), else in the embedded
    store of the project, which is the current folder when not given.
    """

    def __init__(self, tracking_uri: str | None = None, *, project: Path | None = None) -> None:
        self._embedded = (project or Path()).resolve() / connection.EMBEDDED
        configured = str(mlflow.get_tracking_uri()) if mlflow.is_tracking_uri_set() else f"sqlite:///{self._embedded}"
        self.tracking_uri = tracking_uri or configured
        self._client: MlflowClient | None = None

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of ``models:/name/version``, ``models:/name/latest`` or ``models:/name@alias``, pinned.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown``, ``registry-unreachable``; or
                ``registry-unknown``: it is no such URI.
        """
        reference = versions.read_uri(uri)
        with self._open() as client:
            return versions.find_version(client, reference)

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download the version's files, as the registry holds them, into an empty directory, which may not exist yet.

        Raises:
            HoneError: As for ``resolve``.
            FileExistsError: The directory is not empty.
        """
        info = self.resolve(uri)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty")
        with self._open() as client, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pull-") as stage:
            location = client.get_model_version_download_uri(info.name, info.version)
            with connection.hide_progress():
                downloaded = Path(download_artifacts(location, dst_path=stage, tracking_uri=self.tracking_uri))
            # MLflow may put the model's folder itself, or only its content, into the stage.
            for path in sorted(downloaded.iterdir()):
                shutil.move(path, folder / path.name)
        return info

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why MLflow, as it is installed here, refuses a model's name or an alias; empty where it takes both.

        Its server may have more rules; what that refuses is an error of ``publish``.
        """
        return versions.find_problem(name=name, alias=alias)

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the version that each alias of a registered model points to; none where there is no such model."""
        with self._open() as client:
            return versions.read_aliases(client, name)

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return what is new since a cursor, as the contract says, or raise ``registry-unreachable``."""
        with self._open() as client:
            return versions.list_arrivals(client, cursor)

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
        before: Mapping[str, str] | None = None,
    ) -> Publication:
        """Write a new version of a registered model, which is made when it does not exist; the alias is moved last.

        It can be killed at any moment: a logged model becomes a version only when all its files are there, a version
        says that it is unfinished until its alias was moved, and the next call completes or removes what is left.
        Processes of one machine that publish to the same model wait for each other.

        Raises:
            HoneError: ``recipe-invalid``, ``registry-unreachable``, ``toolchain-unknown``, or ``evidence-incomplete``.
        """
        check_names(self, name=name, alias=alias)
        if self.tracking_uri == f"sqlite:///{self._embedded}":
            self._embedded.parent.mkdir(parents=True, exist_ok=True)
        key = derive_key(winner, name=name, tags=tags)
        with lock_publication(connection.name_place(self.tracking_uri), name), self._open(makes=True) as client:
            experiment = self._prepare(client, name)
            version = _settle(client, experiment, name, key)
            if version is None:
                model = _log_model(client, experiment, winner, name=name, metrics=metrics or {})
                # A server finds ``models:/m-…`` in itself. Without one, MLflow would look for it where its global
                # tracking URI says, which belongs to others; so the version names the place of the files.
                source = model.model_uri if connection.has_server(self.tracking_uri) else model.artifact_location
                pending = {KEY: key, **tags, **_make_marks()}
                pending |= {_PENDING_ALIAS: alias} if alias else {}
                run, number = model.source_run_id, model.model_id
                made = client.create_model_version(name, source=source, run_id=run, tags=pending, model_id=number)
                client.set_tag(run, _STATE, _FINISHED)
                version = str(made.version)
            note = _finish_version(client, name, version, alias, before=before)
        alias = None if note else alias
        return Publication(uri=f"models:/{name}/{version}", version=version, alias=alias, note=note)

    @contextmanager
    def _open(self, *, makes: bool = False) -> Iterator[MlflowClient]:
        """Yield a client of the store and explain its errors; only who publishes makes a store."""
        if self._client is None:
            self._client = connection.connect(self.tracking_uri, makes=makes)
        with connection.explain_errors(self.tracking_uri):
            yield self._client

    def _prepare(self, client: MlflowClient, name: str) -> str:
        """Make the experiment that our logged models belong to, whose id is returned, and the registered model."""
        file = connection.find_sqlite_file(self.tracking_uri)
        # Without a server, MLflow would put the files into the current directory.
        location = (file.parent / "mlartifacts").as_uri() if file else None
        try:
            experiment = str(client.create_experiment(EXPERIMENT, artifact_location=location))
        except MlflowException as error:
            known = client.get_experiment_by_name(EXPERIMENT)
            if known is None:
                raise
            experiment = str(known.experiment_id)
            if known.lifecycle_stage == "deleted":
                place = hide_secrets(self.tracking_uri)
                raise HoneError(
                    "registry-unreachable",
                    f"The experiment {EXPERIMENT!r} of the MLflow registry at {place} was deleted.",
                    why="Every publication belongs to it, and MLflow makes no other of its name while it is kept.",
                    hint=f"With MLFLOW_TRACKING_URI={place}, restore it: `mlflow experiments restore --experiment-id "
                    f"{experiment}`. Or remove it for good, with the files of all that was published to it: "
                    f"`mlflow gc --experiment-ids {experiment} --backend-store-uri <the store's database>`.",
                ) from error
        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code == _REFUSED:
                raise explain_refused(f"The registry refuses the model's name {name!r}.", str(error)) from error
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        return experiment


def _log_model(
    client: MlflowClient, experiment: str, winner: ProvenWinner, *, name: str, metrics: Mapping[str, float]
) -> LoggedModel:
    """Upload a winner's model folder with its numbers, complete, as the logged model of a run of its own."""
    marks = {_MODEL: name, **_make_marks()}
    made: list[LoggedModel] = []

    def identify(described: Model) -> None:
        run = client.create_run(experiment, run_name=f"publish-{name}", tags=marks).info.run_id
        allowed = re.sub(r"[/:.%\"']", "-", name)  # a registered model's name may hold more
        made.append(client.create_logged_model(experiment, name=allowed, source_run_id=run, tags=dict(marks)))
        described.model_id = described.model_uuid = made[0].model_id
        described.run_id, described.artifact_path = run, made[0].artifact_location

    with tempfile.TemporaryDirectory() as folder:
        write_winner(Path(folder), winner, name=name, identify=identify)
        model, number, run = made[0], made[0].model_id, made[0].source_run_id
        with connection.hide_progress():
            client.log_model_artifacts(number, folder)
    client.finalize_logged_model(number, "READY")
    now = int(time.time() * 1000)
    rows = [Metric(key, value, now, 0, model_id=number, run_id=run) for key, value in metrics.items()]
    if rows:
        client.log_batch(run, metrics=rows)
    client.set_terminated(run)
    return model


def _make_marks() -> dict[str, str]:
    """Return the tags of what this process is publishing."""
    return {_STATE: _PUBLISHING, _PUBLISHER: name_process()}


def _settle(client: MlflowClient, experiment: str, name: str, key: str) -> str | None:
    """Complete or remove what killed publications to a model left.

    Return the version of the publication that is about to be made (``key``), to be finished; None when there is none.
    """
    done = None
    for version in [one for one in versions.iterate_versions(client, name) if KEY in one.tags]:  # newest first
        number, tags = str(version.version), version.tags
        mine = tags[KEY] == key
        unfinished = tags.get(_STATE) == _PUBLISHING or _PENDING_ALIAS in tags
        # With its alias moved, it was killed after its last visible step: everybody may have seen it. What a search
        # returns may lack the aliases.
        seen = unfinished and tags.get(_PENDING_ALIAS) in (client.get_model_version(name, number).aliases or ())
        if not unfinished or seen or (mine and done is None):
            if unfinished and not mine:
                _finish_version(client, name, number, tags.get(_PENDING_ALIAS))
            done = done or (number if mine else None)
        elif mine or not _is_alive(tags, version.last_updated_timestamp):
            client.delete_model_version(name, number)
            if version.run_id:
                _remove_run(client, experiment, version.run_id)
    _remove_runs(client, experiment, name)
    return done


def _finish_version(
    client: MlflowClient, name: str, version: str, alias: str | None, *, before: Mapping[str, str] | None = None
) -> str:
    """Say that a version, whose files are complete, is finished; then move an alias to it, unless it is there.

    An alias that others moved since ``before`` stays, and how they moved it is returned. MLflow cannot compare and move
    at once: what is moved in the moment between is overwritten.

    Raises:
        HoneError: ``recipe-invalid``: the server refuses the alias. The version does not wait for it any more.
    """
    known, refused, note = client.get_model_version(name, version), None, ""
    if known.tags.get(_STATE) != _FINISHED:
        client.set_model_version_tag(name, version, _STATE, _FINISHED)
    if alias is not None and alias not in (known.aliases or ()):
        ours = versions.find_given(client, name, alias, pull=known.tags.get(PULL))
        note = find_move(alias, before=before, now=versions.read_aliases(client, name), ours=ours)
        try:
            if not note:
                client.set_registered_model_alias(name, alias, version)
        except MlflowException as error:
            if error.error_code != _REFUSED:
                raise
            refused = error
    if alias is not None and not note and refused is None and PULL in known.tags:
        client.set_registered_model_tag(name, versions.RECORD + name_record(alias), version)
    if _PENDING_ALIAS in known.tags:
        client.delete_model_version_tag(name, version, _PENDING_ALIAS)
    if refused is not None:
        what = f"models:/{name}/{version} is published, but the registry refuses the alias {alias!r}."
        raise explain_refused(what, str(refused)) from refused
    return note


def _remove_runs(client: MlflowClient, experiment: str, name: str) -> None:
    """Remove runs that were killed before they had a version."""
    wanted = f"tags.`{_STATE}` = '{_PUBLISHING}' and tags.`{_MODEL}` = {versions.quote(name)}"
    for run in client.search_runs([experiment], wanted):
        if _is_alive(run.data.tags, run.info.end_time or run.info.start_time):
            continue
        if client.search_model_versions(f"run_id='{run.info.run_id}'"):
            client.set_tag(run.info.run_id, _STATE, _FINISHED)
        else:
            _remove_run(client, experiment, run.info.run_id)


def _remove_run(client: MlflowClient, experiment: str, run: str) -> None:
    """Remove a run with its logged models."""
    for model in client.search_logged_models([experiment], f"source_run_id = '{run}'"):
        client.delete_logged_model(model.model_id)
    client.delete_run(run)


def _is_alive(tags: Mapping[str, str], changed_ms: int) -> bool:
    return may_be_alive(tags.get(_PUBLISHER), changed=changed_ms / 1000)
