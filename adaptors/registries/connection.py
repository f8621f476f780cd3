"""A connection to MLflow that answers or fails within a bound, and errors that say what to do."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from kedro_hone.core.errors import HoneError

if TYPE_CHECKING:
    from mlflow import MlflowClient

PATIENCE_SECONDS: Final = 20.0
"""How long an unreachable registry is waited for."""
_BOUNDS: Final = {
    # One request: two tries of 8 s with 2 s between them stay under the patience.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": 8,
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": 1,
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": 1,
}
_PROGRESS: Final = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
"""MLflow draws a bar for every download, even of a few files into a log; the run has a display of its own."""
EMBEDDED: Final = "data/mlflow.db"
ARTIFACTS: Final = "mlartifacts"
"""Where the artifacts of a SQLite store lie, beside its file."""

Result = TypeVar("Result")


def find_tracking_uri(project: Path) -> str:
    """Return where MLflow's store is: as MLflow was told, else the project's embedded one.

    Args:
        project: The project's folder.

    Returns:
        What ``mlflow.set_tracking_uri`` or ``MLFLOW_TRACKING_URI`` says; else ``data/mlflow.db`` of the project.
    """
    import mlflow  # noqa: PLC0415 - heavy, and only those who use MLflow pay for it

    if mlflow.is_tracking_uri_set():
        return str(mlflow.get_tracking_uri())
    return f"sqlite:///{project.resolve() / EMBEDDED}"


def connect(tracking_uri: str, registry_uri: str | None = None) -> MlflowClient:
    """Return a client of a store that answered.

    Args:
        tracking_uri: MLflow's tracking URI.
        registry_uri: The registry's, when it is another one.

    Returns:
        The client.

    Raises:
        HoneError: ``registry-unreachable``, within 20 seconds.
    """
    from mlflow import MlflowClient  # noqa: PLC0415

    check_sqlite(tracking_uri)

    def probe() -> MlflowClient:
        client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri)
        client.search_registered_models(max_results=1)
        return client

    with bound_requests():
        return run_bounded(probe, tracking_uri)


def run_bounded(call: Callable[[], Result], tracking_uri: str, patience: float = PATIENCE_SECONDS) -> Result:
    """Return what a call returns, if it does in time.

    A thread is needed since no setting of MLflow's bounds its retries on a database that cannot be reached.

    Args:
        call: The call.
        tracking_uri: Whom it calls, for the error.
        patience: Seconds.

    Returns:
        The result.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=work, name="hone-registry", daemon=True)
    thread.start()
    thread.join(patience)
    if results:
        return results[0]
    why = _first_line(errors[0]) if errors else f"It did not answer within {patience:g} seconds."
    raise explain_unreachable(tracking_uri, why) from (errors[0] if errors else None)


def explain_unreachable(tracking_uri: str, why: str) -> HoneError:
    """Return the error for a registry that does not answer, without secrets in it."""
    return HoneError(
        "registry-unreachable",
        f"The MLflow registry at {hide_secrets(tracking_uri)} does not answer.",
        why=hide_secrets(why),
        hint="Check MLFLOW_TRACKING_URI and that the server runs; "
        f"without the variable, it is {EMBEDDED} in the project's folder, which the first publication makes.",
    )


def require_store(tracking_uri: str) -> None:
    """Refuse to read from a SQLite store that does not exist: MLflow would make an empty one, wherever one stands.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    path = find_sqlite_file(tracking_uri)
    if path is not None and not path.exists():
        raise explain_unreachable(tracking_uri, f"There is no file {path}.")


def check_sqlite(tracking_uri: str) -> None:
    """Look at a SQLite store's file before MLflow does, which makes folders and retries for hours.

    Args:
        tracking_uri: Any URI; others than SQLite's pass.

    Raises:
        HoneError: ``registry-unreachable``: the folder does not exist, or the file is no database.
    """
    path = find_sqlite_file(tracking_uri)
    if path is None:
        return
    if not path.parent.is_dir():
        raise explain_unreachable(tracking_uri, f"The folder {path.parent} does not exist.")
    if path.is_dir():
        raise explain_unreachable(tracking_uri, f"{path} is a folder.")
    if not os.access(path if path.exists() else path.parent, os.R_OK | os.W_OK):
        raise explain_unreachable(tracking_uri, f"{path} cannot be written.")
    if not path.exists():
        return
    database = sqlite3.connect(path)
    try:
        database.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise explain_unreachable(tracking_uri, f"{path}: {error}.") from error
    finally:
        database.close()


def find_sqlite_file(tracking_uri: str) -> Path | None:
    """Return the file of a SQLite store, or None when the URI names another kind of store."""
    parts = urlsplit(tracking_uri)
    if not parts.scheme.startswith("sqlite") or not parts.path.strip("/"):
        return None
    return Path(unquote(parts.path[1:])).resolve()


@contextmanager
def bound_requests() -> Iterator[None]:
    """Keep every HTTP request of MLflow's client short, and its downloads quiet; what the user set stands."""
    before = {name: os.environ.get(name) for name in (*_BOUNDS, _PROGRESS)}
    os.environ.setdefault(_PROGRESS, "false")
    for name, bound in _BOUNDS.items():
        value = before[name]
        os.environ[name] = str(min(int(value), bound)) if value and value.isdigit() else str(bound)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def use_tracking_uri(tracking_uri: str) -> Iterator[None]:
    """Set MLflow's global URI for a moment: its SQL store follows ``models:/m-…`` by that one, not by its own."""
    import mlflow  # noqa: PLC0415

    before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
    variable = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(tracking_uri)
    try:
        yield
    finally:
        # What only the variable said must not become what was set: later changes of the variable would be ignored.
        mlflow.set_tracking_uri(None if before == variable else before)
        if variable is None:
            os.environ.pop("MLFLOW_TRACKING_URI", None)
        else:
            os.environ["MLFLOW_TRACKING_URI"] = variable


@contextmanager
def explain_errors(tracking_uri: str) -> Iterator[None]:
    """Turn MLflow's errors into ours; what an answer says about names is handled where the names are known."""
    from mlflow.exceptions import MlflowException, RestException  # noqa: PLC0415

    try:
        with bound_requests():
            yield
    except RestException as error:
        raise HoneError(
            "registry-unreachable",
            f"The MLflow registry at {hide_secrets(tracking_uri)} refuses the request.",
            why=hide_secrets(_first_line(error)),
            hint="Check MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN, and your rights.",
        ) from error
    except MlflowException as error:
        raise explain_unreachable(tracking_uri, _first_line(error)) from error


def is_missing(error: Any) -> bool:
    """Return whether an error of MLflow's says that something does not exist."""
    return getattr(error, "error_code", "") in {"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "ENDPOINT_NOT_FOUND"}


def hide_secrets(text: str) -> str:
    """Return a text in which URLs have lost their user and password."""
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1***@", text)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
