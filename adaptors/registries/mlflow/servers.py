"""Features of an MLflow server by its version: logged models since 3.0, aliases since 2.3."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mlflow.exceptions import MlflowException
from requests import RequestException

_PATH: Final = "/version"
_LOGGED_MODELS: Final = (3, 0)


class Server(NamedTuple):
    """The server at a tracking URI.

    Attributes:
        text: Its reported version; empty if it reports none, like a database or services other than MLflow's own.
    """

    text: str = ""

    @property
    def version(self) -> tuple[int, int] | None:
        """Its first two numbers; None if absent."""
        found = re.match(r"(\d{1,4})\.(\d{1,4})", self.text)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def has_logged_models(self) -> bool:
        """Whether it has logged models; a server without a version is assumed to be new."""
        return self.version is None or self.version >= _LOGGED_MODELS

    def explain_missing_models(self) -> str:
        """Return why it has no logged models, or an empty text if it has."""
        return "" if self.has_logged_models else f"The server is MLflow {self.text}, and logged models came with 3.0"


def read_server(tracking_uri: str) -> Server:
    """Return a server's version, within the limits of MLflow's requests; a database has none."""
    if not tracking_uri.startswith(("http://", "https://")):
        return Server()
    from mlflow.utils.credentials import get_default_host_creds  # noqa: PLC0415 - for servers
    from mlflow.utils.rest_utils import http_request  # noqa: PLC0415 - for servers

    try:
        response = http_request(get_default_host_creds(tracking_uri), _PATH, "GET", timeout=8, max_retries=1)
    except (MlflowException, RequestException):
        return Server()
    text = response.text.strip() if response.status_code == 200 else ""
    return Server(text if re.fullmatch(r"\d[\w.+-]{0,40}", text) else "")
