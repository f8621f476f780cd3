"""A connection to MLflow: network calls have a time limit, local files have none; errors have remedies.

Neither MLflow's global tracking URI nor a variable that configures it is changed: other threads, and the program that
uses this package, have their own. One exception: while files are transferred, MLflow's progress bars are disabled.
"""

from __future__ import annotations

import importlib
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException, RestException
from requests import RequestException, Response
from sqlalchemy.engine import make_url

from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow.servers import read_server
from kedro_hone.adaptors.registries.patience import run_within

PATIENCE_SECONDS: Final = 20.0
"""Time limit in seconds for the first response of a registry on a network."""
BUSY_SECONDS: Final = 60.0
"""How long SQLite waits in seconds for another process that has locked the file, for example to create tables."""
EMBEDDED: Final = "data/mlflow.db"
"""The project's own store."""
_DEFAULT: Final = f"without the variable, it is {EMBEDDED} in the project's folder, which the first publication makes."
_PROGRESS: Final = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
_MOVING: Final = threading.Lock()
_PROBE: Final = "/api/2.0/mlflow/registered-models/search"
_DATABASES: Final = frozenset({"postgresql", "mysql", "mssql"})
_LOCAL: Final = frozenset({"", "file", "sqlite"})
_DENIED: Final = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "CUSTOMER_UNAUTHORIZED"})
_REFUSED: Final = frozenset({"INVALID_PARAMETER_VALUE", "BAD_REQUEST"})
_THEIRS: Final = (MlflowException, RequestException)
"""Exceptions of MLflow; the latter are raised while it transfers files."""
_BUILDING: Final = threading.Lock()
"""MLflow fills its table of store types at the first use, and two threads must not do that at once."""


def connect(tracking_uri: str, *, makes: bool = True, patience: float = PATIENCE_SECONDS) -> MlflowClient:
    """Return a client of a store that responded; a file that does not exist is created only if ``makes``.

    A registry on a network must respond once within ``patience`` seconds; the required modules are imported before.
    After that, MLflow's own limits apply (``MLFLOW_HTTP_REQUEST_TIMEOUT`` and so on). A local file has no limit:
    MLflow's first use creates its tables, however long that takes.

    Raises:
        HoneError: ``registry-unreachable``; ``registry-missing``.
    """
    check_sqlite(tracking_uri, makes=makes)
    registry = os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri
    with explain_errors(registry, (Exception,)):  # the database driver is missing or unknown
        probe = find_probe(registry)
    if probe is not None:
        run_bounded(probe, registry, patience)
    with explain_errors(tracking_uri, (Exception,)), _BUILDING:
        client = MlflowClient(tracking_uri=tracking_uri)
        client.search_registered_models(max_results=1)
    return client


def find_probe(uri: str) -> Callable[[], object] | None:
    """Return the smallest request that shows whether a store responds, with all imports done; None for a local file.

    Raises:
        ImportError: The driver of the database is not installed.
        sqlalchemy.exc.ArgumentError: The driver does not exist.
    """
    kind = _find_kind(uri)
    if kind in _LOCAL:
        return None
    if kind in {"http", "https"}:
        importlib.import_module("mlflow.tracking.request_header.registry")  # otherwise imported during a request
        from mlflow.utils.credentials import get_default_host_creds  # noqa: PLC0415 - for servers
        from mlflow.utils.rest_utils import http_request  # noqa: PLC0415 - for servers

        # Two attempts of 8 s with a pause between them are within the patience.
        limits = {"timeout": 8, "max_retries": 1, "backoff_factor": 1, "params": {"max_results": 1}}
        request = partial(http_request, get_default_host_creds(uri), _PROBE, "GET", **limits)
        return lambda: _check_response(request())
    if kind in _DATABASES:
        from mlflow.store.db.utils import create_sqlalchemy_engine  # noqa: PLC0415 - for databases

        engine = create_sqlalchemy_engine(uri)  # imports the driver, but does not connect
        return lambda: engine.connect().close()
    return lambda: MlflowClient(tracking_uri=uri).search_registered_models(max_results=1)


def _check_response(response: Response) -> None:
    """Raise the error of an unsuccessful response; a server may deny access in any words."""
    from mlflow.utils.rest_utils import verify_rest_response  # noqa: PLC0415 - for servers

    if response.status_code in {401, 403}:
        response.raise_for_status()
    verify_rest_response(response, _PROBE)


@contextmanager
def hide_progress() -> Iterator[None]:
    """Disable MLflow's progress bars temporarily, unless the user set the variable: MLflow has no argument for this.

    MLflow draws one for every download, even of a few files into a log; the run has its own display. Threads that
    transfer files wait for each other, so that the variable is restored when the last one has ended.
    """
    with _MOVING:
        chosen = _PROGRESS in os.environ
        os.environ.setdefault(_PROGRESS, "false")
        try:
            yield
        finally:
            if not chosen:
                del os.environ[_PROGRESS]


def has_server(tracking_uri: str) -> bool:
    """Return whether requests go to MLflow's server, not to a file or a database that this process opens itself."""
    return _find_kind(tracking_uri) not in _LOCAL | _DATABASES


def has_experiments(tracking_uri: str) -> bool:
    """Return whether a store's files are in the locations of its experiments, not in a service's own storage."""
    return _find_kind(tracking_uri) in _LOCAL | _DATABASES | {"http", "https"}


def format_location(tracking_uri: str) -> str:
    """Return a name of the model registry for all processes of this machine: its file, or its URI without a user."""
    uri = os.environ.get("MLFLOW_REGISTRY_URI") or tracking_uri
    parts = urlsplit(uri)
    return str(find_sqlite_file(uri) or parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())


def run_bounded(call: Callable[[], object], tracking_uri: str, patience: float = PATIENCE_SECONDS) -> object:
    """Return the result of a network call within some seconds; not every database driver has such a limit.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    with explain_errors(tracking_uri, (BaseException,)):
        return run_within(patience, call)


def check_sqlite(tracking_uri: str, *, makes: bool = True, busy: float = BUSY_SECONDS) -> None:
    """Check a SQLite store's file before MLflow, which creates files and folders and retries for hours.

    Stores of other kinds pass. If ``makes``, a file that does not exist passes if its folder exists. If another process
    has locked the file, wait at most ``busy`` seconds.

    Raises:
        HoneError: ``registry-missing``: there is no file and none is created; ``registry-unreachable``: its folder is
            missing, it is not a database, cannot be written, or remains locked.
    """
    path = find_sqlite_file(tracking_uri)
    if path is None:
        return
    known = path.exists()
    if not (known or makes):
        raise HoneError(
            "registry-missing",
            "There is no MLflow registry.",
            why=f"There is no file {path}.",
            hint=f"Name another registry by MLFLOW_TRACKING_URI; {_DEFAULT}",
        )
    faults = {
        f"The folder {path.parent} does not exist.": not path.parent.is_dir(),
        f"{path} is a folder.": path.is_dir(),
        f"{path} cannot be written.": not os.access(path if known else path.parent, os.R_OK | os.W_OK),
    }
    if why := next((why for why, wrong in faults.items() if wrong), None):
        raise _explain_unreachable(tracking_uri, why)
    if known:
        try:
            with closing(sqlite3.connect(path, timeout=busy)) as database:
                database.execute("PRAGMA schema_version").fetchone()
        except sqlite3.DatabaseError as error:
            raise _explain_unreachable(tracking_uri, f"{path}: {error}.") from error


def find_sqlite_file(tracking_uri: str) -> Path | None:
    """Return the file of a SQLite store, or None if the URI is of another kind of store."""
    database = make_url(tracking_uri).database if _find_kind(tracking_uri) == "sqlite" else None
    return Path(database).resolve() if database else None


def _find_kind(uri: str) -> str:
    """Return the scheme of a URI without the driver: ``postgresql`` for ``postgresql+psycopg2://…``."""
    return urlsplit(uri).scheme.partition("+")[0]


@contextmanager
def explain_errors(tracking_uri: str, kinds: tuple[type[BaseException], ...] = _THEIRS) -> Iterator[None]:
    """Convert errors of these kinds to ``HoneError``; unknown names are handled where the names are known."""
    try:
        yield
    except kinds as error:
        if _is_denied(error):
            raise HoneError(
                "registry-denied",
                f"The MLflow registry at {tracking_uri} denies access.",
                why=_quote(error),
                hint="Check MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, and what "
                "this user may do there: pulling reads, publishing writes.",
            ) from error
        if getattr(error, "error_code", None) in _REFUSED:
            raise HoneError(
                "registry-refused",
                f"The MLflow registry at {tracking_uri} rejects the values that were sent.",
                why=_quote(error),
                hint="Correct the value that it names; a retry changes nothing.",
            ) from error
        if getattr(error, "error_code", None) == "ENDPOINT_NOT_FOUND":
            version = read_server(tracking_uri).text
            raise HoneError(
                "registry-refused",
                f"The MLflow registry at {tracking_uri} does not know the requested function.",
                why=f"{f'The server is MLflow {version}. ' if version else ''}{_quote(error)}",
                hint="Update the server: aliases need MLflow 2.3, and logged models 3.0. Or correct "
                "MLFLOW_TRACKING_URI, if it is not an MLflow server.",
            ) from error
        if isinstance(error, RestException):
            raise HoneError(
                "registry-unreachable",
                f"The MLflow registry at {tracking_uri} refuses the request.",
                why=_quote(error),
                hint="Correct what it names, or read the server's log; then run again.",
            ) from error
        raise _explain_unreachable(tracking_uri, _quote(error)) from error


def _is_denied(error: BaseException) -> bool:
    """Whether a server returned 401 or 403: in its response, in MLflow's message, or quoted during a file transfer."""
    code, response = getattr(error, "error_code", None), getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return code in _DENIED or status in {401, 403} or bool(re.search(r"\b40[13] Client Error", str(error)))


def _explain_unreachable(tracking_uri: str, why: str) -> HoneError:
    """Return the error for a registry that cannot be used, without secrets in it."""
    what = f"at {tracking_uri} does not respond"
    check = "Check MLFLOW_TRACKING_URI and that the server runs"
    if file := find_sqlite_file(tracking_uri):
        what = f"in {file} cannot be used"
        check = "Check the file and its folder, and that no other process locks it. MLFLOW_TRACKING_URI names it"
    return HoneError("registry-unreachable", f"The MLflow registry {what}.", why=why, hint=f"{check}; {_DEFAULT}")


def _quote(error: BaseException) -> str:
    """Return the first line of an error, without secrets."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
