"""MLflow's model registry: ``models:/name/version``, ``models:/name@alias``, logged models and artifacts of runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import mlflow
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.exceptions import MlflowException

from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.contract.registry import (
    NewVersions,
    Publication,
    Registry,
    VersionInfo,
    check_names,
    explain_refused,
)
from hone_runtime.contract.tags import KEY, derive_key
from hone_runtime.errors import HoneError
from hone_runtime.text import hide_secrets
from hone_runtime.values.trees import (
    StrangeTreeError,
    copy_bounded,
    copy_tree_bounded,
    measure_tree,
    require_room,
)
from kedro_hone.adaptors.registries.locks import lock_publication
from kedro_hone.adaptors.registries.mlflow import connection, places, publication, references, unregistered, versions
from kedro_hone.adaptors.registries.model_folder import make_empty

EXPERIMENT: Final = "kedro-hone"


class MlflowRegistry(Registry):
    """An MLflow registry, on a server or in a SQLite file; it is contacted at the first use.

    Without a ``tracking_uri``, it is MLflow's configured one (``MLFLOW_TRACKING_URI``), else the embedded store of the
    project. The project is the current folder by default.
    """

    keeps_versions_apart = True

    def __init__(self, tracking_uri: str | None = None, *, project: Path | None = None) -> None:
        self._project = (project or Path()).resolve()
        self._embedded = self._project / connection.EMBEDDED
        configured = str(mlflow.get_tracking_uri()) if mlflow.is_tracking_uri_set() else f"sqlite:///{self._embedded}"
        self.tracking_uri = tracking_uri or configured
        self._client: MlflowClient | None = None

    def resolve(self, uri: str) -> VersionInfo:
        """Describe ``models:/name/version``, ``models:/name/latest`` or ``models:/name@alias``, with a pinned version.

        Also accepted are a logged model (``models:/m-…``), an artifact of a run (``runs:/…/path``), and a part of a
        version (``models:/name/version/path``): these belong to no registered model, and have no name.

        Raises:
            HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown``, ``registry-unreachable``; or
                ``registry-unknown``: it is not such a URI.
        """
        reference = references.read_uri(uri)
        with self._open() as client:
            return versions.find_version(client, reference)

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Download the version's files unchanged into an empty directory, which need not exist yet.

        Raises:
            HoneError: As in ``resolve``; ``files-elsewhere``: the files are outside the registry's locations;
                ``model-corrupt``: they are not where the registry's value points, or are not files.
            FileExistsError: The directory is not empty.
        """
        info = self.resolve(uri)
        make_empty(folder)
        with self._open() as client, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pull-") as stage:
            reference = references.read_uri(uri)
            location, inside = self._locate(client, reference, info)
            try:
                place = places.find_place(client, location, tracking_uri=self.tracking_uri, project=self._project)
                downloaded = self._download(
                    places.join_path(place, inside), Path(stage), takes_file=bool(reference.path)
                )
            except (MlflowException, FileNotFoundError, shutil.Error, StrangeTreeError) as error:
                if isinstance(error, MlflowException) and error.error_code not in unregistered.MISSING:
                    raise
                raise HoneError(
                    "model-corrupt",
                    f"The files of {info.uri} are not where the registry says, or are not those of a version.",
                    why=hide_secrets(str(error)),
                    hint="Make the place reachable from this machine, or log the model again.",
                ) from error
            # MLflow may put the model's folder itself, or only its content, into the staging folder.
            for path in sorted(downloaded.iterdir()):
                shutil.move(path, folder / path.name)
        return info

    @staticmethod
    def _locate(client: MlflowClient, reference: references.Reference, info: VersionInfo) -> tuple[str, str]:
        """Return the registry's location of a version's files, and the path of the requested part."""
        if reference.name is None:
            return unregistered.locate(client, reference)
        return str(client.get_model_version_download_uri(reference.name, info.version)), reference.path

    def _download(self, place: Path | str, stage: Path, *, takes_file: bool) -> Path:
        """Copy the files of a location into a folder, and return the folder that contains them."""
        if isinstance(place, Path) and takes_file and place.is_file():
            require_room(stage, measure_tree(place))
            copy_bounded(place, stage / place.name)
            return stage
        if isinstance(place, Path):
            copy_tree_bounded(place, stage)
            return stage
        with connection.hide_progress():
            found = Path(download_artifacts(place, dst_path=str(stage), tracking_uri=self.tracking_uri))
        if not found.is_dir() and not takes_file:
            raise FileNotFoundError(f"{place} is one file, and no folder of a version")
        return found if found.is_dir() else found.parent

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why the installed MLflow refuses a model's name or an alias; empty if it accepts both.

        Its server may have more rules; its refusals are errors of ``publish``.
        """
        return versions.find_problem(name=name, alias=alias)

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the version that each alias of a registered model points to; empty if the model does not exist."""
        if self.tracking_uri == f"sqlite:///{self._embedded}" and not self._embedded.exists():
            return {}  # the first publication creates it
        with self._open() as client:
            return versions.read_aliases(client, name)

    def name_version(self, name: str, version: str) -> str:
        """Return the URI of a version of a model."""
        return f"models:/{name}/{version}"

    def move_alias(self, uri: str, alias: str) -> None:
        """Make an alias point to a version.

        Raises:
            HoneError: As in ``resolve``; ``recipe-invalid``: MLflow refuses the alias.
        """
        reference = references.read_uri(uri)
        with self._open() as client:
            info = versions.find_version(client, reference)
            publication.finish_version(client, info.name, info.version, alias)

    def versions_since(self, cursor: str | None) -> NewVersions:
        """Return the versions that are new since a cursor, as in the contract, or raise ``registry-unreachable``."""
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
        """Write a new version of a registered model, which is created if absent; the alias is moved last.

        It can be killed at any moment. A logged model becomes a version only when all its files are uploaded. A version
        is tagged as unfinished until its alias was moved. The next call completes or removes incomplete versions.
        Processes of one machine that publish to the same model wait for each other.

        Raises:
            HoneError: ``recipe-invalid``, ``registry-unreachable``, ``toolchain-unknown``, or ``evidence-incomplete``.
        """
        check_names(self, name=name, alias=alias)
        if self.tracking_uri == f"sqlite:///{self._embedded}":
            self._embedded.parent.mkdir(parents=True, exist_ok=True)
        key = derive_key(winner, name=name, tags=tags)
        with lock_publication(connection.format_location(self.tracking_uri), name), self._open(makes=True) as client:
            experiment = self._prepare(client, name)
            version = publication.recover(client, experiment, name, key)
            if version is None:
                logged = publication.log_model(client, experiment, winner, name=name, metrics=metrics or {})
                pending = {KEY: key, **tags, **logged.tags, **publication.make_marks()}
                pending |= {publication.PENDING_ALIAS: alias} if alias else {}
                named = {"run_id": logged.run, "model_id": logged.model, "description": winner.description or None}
                made = client.create_model_version(name, source=logged.source, tags=pending, **named)
                client.set_tag(logged.run, publication.STATE, publication.FINISHED)
                version = str(made.version)
            note = publication.finish_version(client, name, version, alias, before=before)
        alias = None if note else alias
        return Publication(uri=f"models:/{name}/{version}", version=version, alias=alias, note=note)

    @contextmanager
    def _open(self, *, makes: bool = False) -> Iterator[MlflowClient]:
        """Yield a client of the store and explain its errors; only a publication creates a store."""
        if self._client is None:
            self._client = connection.connect(self.tracking_uri, makes=makes)
        with connection.explain_errors(self.tracking_uri):
            yield self._client

    def _prepare(self, client: MlflowClient, name: str) -> str:
        """Create the registered model, and the experiment for our logged models; return the experiment's id."""
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
                    why="Every publication belongs to it, and MLflow creates no other experiment of that name before "
                    "it is removed for good.",
                    hint=f"With MLFLOW_TRACKING_URI={place}, restore it: `mlflow experiments restore --experiment-id "
                    f"{experiment}`. Or remove it for good, with the files of all that was published to it: "
                    f"`mlflow gc --experiment-ids {experiment} --backend-store-uri <the store's database>`.",
                ) from error
        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code == publication.REFUSED:
                raise explain_refused(f"The registry refuses the model's name {name!r}.", str(error)) from error
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        return experiment
