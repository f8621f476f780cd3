"""Logged models, artifacts of runs, and parts of versions: they are sources that belong to no registered model."""

from __future__ import annotations

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow.references import Reference
from kedro_hone.adaptors.registries.mlflow.servers import read_server

MISSING = frozenset({"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "ENDPOINT_NOT_FOUND"})
"""MLflow's error codes for something that does not exist."""
_MOST_MODELS = 100
"""The largest number of logged models of a run that are examined."""


def find_unregistered(client: MlflowClient, reference: Reference) -> VersionInfo:
    """Return a logged model, or a file or folder of a run, as a version without a model: its name is empty.

    Raises:
        HoneError: ``model-unknown``: it does not exist; ``model-corrupt``: it was never finished.
    """
    if reference.model is not None:
        _check_logged(client, reference.model)
        return VersionInfo(uri=_name(f"models:/{reference.model}", reference.path), name="", version=reference.model)
    run = str(reference.run)
    try:
        client.get_run(run)
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
        raise _explain_missing(f"run {run}", str(error)) from error
    return VersionInfo(uri=_name(f"runs:/{run}", reference.path), name="", version=run)


def make_inside(info: VersionInfo, path: str) -> VersionInfo:
    """Return a part of a version as a version without a model: tags of the whole do not apply to the part."""
    return VersionInfo(uri=_name(info.uri, path), name="", version=info.version)


def locate(client: MlflowClient, reference: Reference) -> tuple[str, str]:
    """Return the location of a logged model or a run, and the path below it.

    MLflow 3 stores a model that a run logged next to the run, and finds it by its name below the run.
    """
    if reference.model is not None:
        return f"models:/{reference.model}", reference.path
    first, _, rest = reference.path.partition("/")
    outputs = getattr(client.get_run(str(reference.run)), "outputs", None)
    for output in (outputs.model_outputs if outputs else [])[:_MOST_MODELS]:
        if client.get_logged_model(output.model_id).name == first:
            return f"models:/{output.model_id}", rest
    return f"runs:/{reference.run}/{reference.path}", ""


def _check_logged(client: MlflowClient, model: str) -> None:
    try:
        found = client.get_logged_model(model)
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
        server = read_server(client.tracking_uri)
        raise _explain_missing(f"logged model {model}", server.explain_missing_models() or str(error)) from error
    if str(found.status) != "READY":
        raise HoneError(
            "model-corrupt",
            f"The logged model {model} was never finished.",
            why=f"Its status is {found.status}: its files are not all there, or still being written.",
            hint="Wait until it is READY, or log the model again.",
        )


def _explain_missing(what: str, why: str) -> HoneError:
    hint = "Name one that exists: MLflow's page shows the ids, and log_model returns them."
    return HoneError("model-unknown", f"The registry has no {what}.", why=why.rstrip(".") + ".", hint=hint)


def _name(uri: str, path: str) -> str:
    return f"{uri}/{path}" if path else uri
