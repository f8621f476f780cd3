"""A connection to MLflow: a network has to respond within a bound, a local file has none; errors say what to do.

Nothing here changes MLflow's global tracking URI or the environment variables that configure it, since other threads,
and the program that uses this package, have their own. There is one exception: importing this module turns MLflow's
progress bars off, unless ``MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR`` is set, since MLflow has no argument for that.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from kedro_hone.core.errors import HoneError
from kedro_hone.core.text import hide_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient

PATIENCE_SECONDS: Final = 20.0
"""How long a registry behind a network may take to respond once."""
BUSY_SECONDS: Final = 60.0
"""How long SQLite waits for another process that has locked the file, such as one that makes its tables."""
_PROBE: Final = "/api/2.0/mlflow/registered-models/search"
_DATABASES: Final = frozenset({"postgresql", "mysql", "mssql"})
_LOCAL: Final = frozenset({"", "file", "sqlite"})
_BUILDING: Final = threading.Lock()
"""MLflow fills its table of kinds of stores at the first use, and two threads must not do that at once."""
EMBEDDED: Final = "data/mlflow.db"
ARTIFACTS: Final = "mlartifacts"
"""The folder with the artifacts of a SQLite store, next to its file."""

# MLflow draws a bar for every download, even of a few files into a log; the run has a display of its own.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


def find_tracking_uri(project: Path) -> str:
    """Return what ``mlflow.set_tracking_uri`` or ``MLFLOW_TRACKING_URI`` says; else the project's embedded store."""
    import mlflow  # noqa: PLC0415 - slow to import, and only needed with MLflow

    if mlflow.is_tracking_uri_set():
        return str(mlflow.get_tracking_uri())
    return f"sqlite:///{project.resolve() / EMBEDDED}"


def connect(tracking_uri: str, *, patience: float = PATIENCE_SECONDS) -> MlflowClient:
    """Return a client of a store that responded.

    A registry behind a network has to respond once within the patience; what is imported for that is imported before.
    After that the limits of MLflow hold (``MLFLOW_HTTP_REQUEST_TIMEOUT`` and so on). A local file has no limit:
    MLflow's first use of it makes the tables, which takes as long as the machine takes.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    from mlflow import MlflowClient  # noqa: PLC0415

    check_sqlite(tracking_uri)
    registry = os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri
    try:
        probe = find_probe(registry)
    except Exception as error:  # the driver of the database is missing or unknown
        raise _explain_unreachable(registry, _first_line(error)) from error
    if probe is not None:
        run_bounded(probe, registry, patience)
    try:
        with _BUILDING:
            client = MlflowClient(tracking_uri=tracking_uri)
            client.search_registered_models(max_results=1)
    except Exception as error:
        raise _explain_unreachable(tracking_uri, _first_line(error)) from error
    return client


def find_probe(uri: str) -> Callable[[], object] | None:
    """Import what a store needs, and return the smallest request that shows whether it responds.

    The request imports nothing more. A local file needs none.

    Raises:
        ImportError: The driver of the database is not installed.
        sqlalchemy.exc.ArgumentError: There is no such driver.
    """
    kind = _find_kind(uri)
    if kind in _LOCAL:
        return None
    if kind in {"http", "https"}:
        importlib.import_module("mlflow.tracking.request_header.registry")  # which a request imports by itself
        from mlflow.utils.credentials import get_default_host_creds  # noqa: PLC0415
        from mlflow.utils.rest_utils import http_request, verify_rest_response  # noqa: PLC0415

        def request() -> object:
            # Two tries of 8 s with a pause between them stay under the patience.
            limits = {"timeout": 8, "max_retries": 1, "backoff_factor": 1}
            response = http_request(get_default_host_creds(uri), _PROBE, "GET", params={"max_results": 1}, **limits)
            return verify_rest_response(response, _PROBE)

        return request
    if kind in _DATABASES:
        from mlflow.store.db.utils import create_sqlalchemy_engine  # noqa: PLC0415

        engine = create_sqlalchemy_engine(uri)  # imports the driver, and does not connect
        return lambda: engine.connect().close()
    from mlflow import MlflowClient  # noqa: PLC0415

    return lambda: MlflowClient(tracking_uri=uri).search_registered_models(max_results=1)


def has_server(tracking_uri: str) -> bool:
    """Return whether MLflow's server is asked, and not a file or a database that this process opens itself."""
    return _find_kind(tracking_uri) not in _LOCAL | _DATABASES


def _find_kind(uri: str) -> str:
    """Return the scheme of a URI without the driver: ``postgresql`` of ``postgresql+psycopg2://…``."""
    return urlsplit(uri).scheme.partition("+")[0]


def run_bounded(call: Callable[[], object], tracking_uri: str, patience: float = PATIENCE_SECONDS) -> object:
    """Return what a call over a network to a store returns, if it does within some seconds.

    A thread is needed since not every database's driver can be given a limit for connecting.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    future: Future[object] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    threading.Thread(target=work, name="hone-registry", daemon=True).start()
    try:
        error = future.exception(patience)
    except TimeoutError:
        raise _explain_unreachable(tracking_uri, f"It did not respond within {patience:g} seconds.") from None
    if error is not None:
        raise _explain_unreachable(tracking_uri, _first_line(error)) from error
    return future.result()


def _explain_unreachable(tracking_uri: str, why: str) -> HoneError:
    """Return the error for a registry that cannot be used, without secrets in it."""
    what = f"at {hide_secrets(tracking_uri)} does not respond"
    check = "Check MLFLOW_TRACKING_URI and that the server runs"
    file = find_sqlite_file(tracking_uri)
    if file is not None:
        what = f"in {file} cannot be used"
        check = "Check the file and its folder, and that no other process locks it. MLFLOW_TRACKING_URI names it"
    default = f"without the variable, it is {EMBEDDED} in the project's folder, which the first publication makes."
    return HoneError(
        "registry-unreachable", f"The MLflow registry {what}.", why=hide_secrets(why), hint=f"{check}; {default}"
    )


def require_store(tracking_uri: str) -> None:
    """Refuse to read from a SQLite store that does not exist: MLflow would make an empty one.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    path = find_sqlite_file(tracking_uri)
    if path is not None and not path.exists():
        raise _explain_unreachable(tracking_uri, f"There is no file {path}.")


def check_sqlite(tracking_uri: str, *, busy: float = BUSY_SECONDS) -> None:
    """Look at a SQLite store's file before MLflow does, which makes folders and retries for hours.

    Args:
        tracking_uri: Any URI; others than SQLite's pass.
        busy: Seconds to wait for another process that has locked the file.

    Raises:
        HoneError: ``registry-unreachable``: the folder does not exist, the file is no database, cannot be written, or
            stays locked.
    """
    path = find_sqlite_file(tracking_uri)
    if path is None:
        return
    if not path.parent.is_dir():
        raise _explain_unreachable(tracking_uri, f"The folder {path.parent} does not exist.")
    if path.is_dir():
        raise _explain_unreachable(tracking_uri, f"{path} is a folder.")
    if not os.access(path if path.exists() else path.parent, os.R_OK | os.W_OK):
        raise _explain_unreachable(tracking_uri, f"{path} cannot be written.")
    if path.exists():
        try:
            with closing(sqlite3.connect(path, timeout=busy)) as database:
                database.execute("PRAGMA schema_version").fetchone()
        except sqlite3.DatabaseError as error:
            raise _explain_unreachable(tracking_uri, f"{path}: {error}.") from error


def find_sqlite_file(tracking_uri: str) -> Path | None:
    """Return the file of a SQLite store, or None when the URI names another kind of store."""
    parts = urlsplit(tracking_uri)
    if not parts.scheme.startswith("sqlite") or not parts.path.strip("/"):
        return None
    return Path(unquote(parts.path[1:])).resolve()


@contextmanager
def explain_errors(tracking_uri: str) -> Iterator[None]:
    """Turn MLflow's errors into ours; unknown names are handled where the names are known."""
    from mlflow.exceptions import MlflowException, RestException  # noqa: PLC0415

    try:
        yield
    except RestException as error:
        raise HoneError(
            "registry-unreachable",
            f"The MLflow registry at {hide_secrets(tracking_uri)} refuses the request.",
            why=hide_secrets(_first_line(error)),
            hint="Check MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN, and your rights.",
        ) from error
    except MlflowException as error:
        raise _explain_unreachable(tracking_uri, _first_line(error)) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
