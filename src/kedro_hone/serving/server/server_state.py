"""The models of a server and whether it accepts requests, for both protocols."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from hone_runtime.contract.plugins import describe_exception
from kedro_hone.serving.server.configuration import Limits
from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.logs import log
from kedro_hone.serving.server.metrics import Metrics
from kedro_hone.serving.server.models import Model

NAME: Final = "kedro-hone"
EXTENSIONS: Final = ("binary_tensor_data",)


@dataclass(kw_only=True)
class Server:
    """What both protocols answer from.

    Attributes:
        models: The models by name.
        limits: The limits of requests.
        metrics: The figures.
        ready: Whether new requests are welcome; False from a signal to stop on. They are still answered for a while.
    """

    models: Mapping[str, Model]
    limits: Limits
    metrics: Metrics
    ready: bool = field(default=True)

    def find_model(self, name: str, wanted: str = "") -> Model:
        """Return a model by its name, and its version if one is wanted.

        Raises:
            RequestError: There is none.
        """
        found = self.models.get(name)
        if found is None:
            raise RequestError(f"there is no model {name!r:.130}", HTTPStatus.NOT_FOUND)
        if wanted not in {"", found.configuration.version}:
            text = f"{name} has the version {found.configuration.version}, and not {wanted!r:.130}"
            raise RequestError(text, HTTPStatus.NOT_FOUND)
        return found

    def require_ready(self) -> None:
        """Raise ``RequestError`` if the server is stopping."""
        if not self.ready:
            raise RequestError("the server is stopping", HTTPStatus.SERVICE_UNAVAILABLE)

    def describe(self) -> dict[str, Any]:
        """Return the metadata of the server."""
        return {"name": NAME, "version": version("kedro-hone"), "extensions": list(EXTENSIONS)}

    def describe_model(self, model: Model) -> dict[str, Any]:
        """Return the metadata of a model."""
        return {
            "name": model.name,
            "versions": [model.configuration.version],
            "platform": model.platform,
            "inputs": [one.model_dump(mode="json") for one in model.inputs],
            "outputs": [one.model_dump(mode="json") for one in model.outputs],
        }

    def count(self, model: str, *, protocol: str, code: str, since: float) -> None:
        """Count a request of inference; names that no model has are counted together."""
        label = model if model in self.models else ""
        self.metrics.requests.labels(label, protocol, code).inc()
        self.metrics.seconds.labels(label, protocol).observe(time.monotonic() - since)


def hide_error(error: Exception, *, name: str) -> RequestError:
    """Return the error for the client, which has no details of the server, and log an exception that has some.

    Args:
        error: What was raised.
        name: The request's id; empty if it has none.
    """
    if isinstance(error, RequestError):
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log(f"request {name or '-'}: {error.message}", error=error)
        return error
    shown = name or uuid.uuid4().hex[:12]
    log(f"request {shown}: {describe_exception(error)}", error=error)
    text = f"the request failed; the server's log has the reason under {shown!r:.130}"
    return RequestError(text, HTTPStatus.INTERNAL_SERVER_ERROR)
