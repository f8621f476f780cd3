"""MLflow's model registry: ``models:/name/version`` and ``models:/name@alias``."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kedro_hone.adaptors.registries import publication
from kedro_hone.adaptors.registries.mlflow import connection
from kedro_hone.adaptors.registries.mlflow.arrivals import list_arrivals
from kedro_hone.adaptors.registries.mlflow.names import find_version, read_uri
from kedro_hone.adaptors.registries.mlflow.unfinished import finish_version, settle
from kedro_hone.adaptors.registries.model_folder import find_requirements, write_winner
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import RECIPE, Publication, VersionInfo

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT: Final = "kedro-hone"


class MlflowRegistry:
    """A registry of MLflow's, on a server or in the project's own SQLite file.

    Attributes:
        tracking_uri: Where MLflow's store is.
    """

    def __init__(self, tracking_uri: str | None = None, *, project: Path | None = None) -> None:
        """Choose a store; nothing is contacted yet.

        Args:
            tracking_uri: MLflow's tracking URI; as MLflow is configured (``MLFLOW_TRACKING_URI``) when not given, else
                the project's embedded store.
            project: The project's folder; the current one when not given.
        """
        home = (project or Path.cwd()).resolve()
        self.tracking_uri = tracking_uri or connection.find_tracking_uri(home)
        self._embedded = home / connection.EMBEDDED

    @cached_property
    def client(self) -> MlflowClient:
        """A client of the store, which has responded."""
        return connection.connect(self.tracking_uri)

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of a version, without downloading it; its number is pinned.

        Args:
            uri: ``models:/name/version``, ``models:/name/latest`` or ``models:/name@alias``.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown`` or ``registry-unreachable``.
        """
        reference = read_uri(uri)
        connection.require_store(self.tracking_uri)
        with connection.explain_errors(self.tracking_uri):
            return find_version(self.client, reference)

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download the version's files, as the registry holds them, into an empty directory, which may not exist yet.

        Raises:
            HoneError: As for ``resolve``.
            FileExistsError: The directory is not empty.
        """
        from mlflow.artifacts import download_artifacts  # noqa: PLC0415

        info = self.resolve(uri)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty")
        with (
            connection.explain_errors(self.tracking_uri),
            tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pull-") as stage,
        ):
            location = self.client.get_model_version_download_uri(info.name, info.version)
            downloaded = Path(download_artifacts(location, dst_path=stage, tracking_uri=self.tracking_uri))
            # MLflow may put the model's folder itself, or only its content, into the stage.
            for path in sorted(downloaded.iterdir()):
                shutil.move(path, folder / path.name)
        return info

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return the versions of all models that came after a cursor, oldest first, and the next cursor.

        Raises:
            HoneError: ``registry-unreachable``.
        """
        connection.require_store(self.tracking_uri)
        with connection.explain_errors(self.tracking_uri):
            return list_arrivals(self.client, cursor)

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
    ) -> Publication:
        """Write a new version of a registered model, which is made when it does not exist; the alias is moved last.

        It can be killed at any moment. A logged model becomes a version only when all its files are there; a version
        says that it is unfinished until its alias was moved. The next call completes the same publication, or removes
        what another one left.

        Raises:
            HoneError: ``registry-unreachable``, ``toolchain-unknown``, or ``evidence-incomplete``.
        """
        requirements = find_requirements(winner.artifact)
        key = publication.derive_key(winner, name=name, recipe=tags.get(RECIPE))
        with connection.explain_errors(self.tracking_uri):
            self._ensure_model(name)
            version = settle(self.client, self._experiment, name, key)
            if version is None:
                pending = {publication.KEY: key, **tags, publication.STATE: publication.PUBLISHING}
                pending |= {publication.PENDING_ALIAS: alias} if alias else {}
                version = self._write_version(
                    winner, name=name, requirements=requirements, tags=pending, metrics=metrics or {}
                )
                finish_version(self.client, name, version)
        return Publication(uri=f"models:/{name}/{version}", version=version, alias=alias)

    def _ensure_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        if self.tracking_uri == f"sqlite:///{self._embedded}":
            self._embedded.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    @cached_property
    def _experiment(self) -> str:
        """The experiment that our logged models belong to, by its id."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        file = connection.find_sqlite_file(self.tracking_uri)
        # Without a server, MLflow would put the files into the current directory.
        location = (file.parent / connection.ARTIFACTS).as_uri() if file else None
        try:
            return str(self.client.create_experiment(EXPERIMENT, artifact_location=location))
        except MlflowException as error:
            experiment = self.client.get_experiment_by_name(EXPERIMENT)
            if experiment is None:
                raise
            if experiment.lifecycle_stage == "deleted":
                raise RuntimeError(f"the experiment {EXPERIMENT!r} was deleted: restore it") from error
            return str(experiment.experiment_id)

    def _write_version(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        requirements: tuple[str, ...],
        tags: Mapping[str, str],
        metrics: Mapping[str, float],
    ) -> str:
        """Upload a model folder, then make a version of it: there is no version before its files are complete."""
        from mlflow.entities import Metric  # noqa: PLC0415

        publisher = {publication.PUBLISHER: publication.name_publisher()}
        marks = {publication.STATE: publication.PUBLISHING, publication.MODEL: name, **publisher}
        client = self.client
        run = client.create_run(self._experiment, run_name=f"publish-{name}", tags=marks).info.run_id
        model = client.create_logged_model(self._experiment, name=name, source_run_id=run, tags=dict(marks))
        place, number = model.artifact_location, model.model_id
        identity = {"artifact_path": place, "model_id": number, "model_uuid": number, "run_id": run}
        with tempfile.TemporaryDirectory() as folder:
            write_winner(Path(folder), winner, requirements=requirements, identity=identity)
            client.log_model_artifacts(number, folder)
        client.finalize_logged_model(number, "READY")
        now = int(time.time() * 1000)
        rows = [Metric(key, value, now, 0, model_id=number, run_id=run) for key, value in metrics.items()]
        if rows:
            client.log_batch(run, metrics=rows)
        client.set_terminated(run)
        # A server finds ``models:/m-…`` in itself. Without one, MLflow would look for it where its global tracking URI
        # says, which belongs to others; so the version names the place of the files.
        source = f"models:/{number}" if connection.has_server(self.tracking_uri) else place
        made = client.create_model_version(name, source=source, run_id=run, tags={**publisher, **tags}, model_id=number)
        client.set_tag(run, publication.STATE, publication.FINISHED)
        return str(made.version)
