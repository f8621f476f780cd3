"""KServe's data plane, which answers both protocols from the models, with what it lacks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import orjson
from kserve.errors import InferenceError, InvalidInput, ModelNotReady, ServerNotReady
from kserve.model_repository import ModelRepository
from kserve.protocol.dataplane import DataPlane

from hone_runtime.contract.plugins import describe_exception
from kedro_hone.serving.server.configuration import Limits
from kedro_hone.serving.server.failures import RequestError, RunError
from kedro_hone.serving.server.logs import log
from kedro_hone.serving.server.messages import JSON_LENGTH
from kedro_hone.serving.server.metrics import Metrics
from kedro_hone.serving.server.models import Model

NAME: Final = "kedro-hone"
EXTENSIONS: Final = ("binary_tensor_data",)


class Server(DataPlane):  # type: ignore[misc]  # KServe has no types
    """What both protocols answer from.

    Attributes:
        limits: The limits of requests.
        metrics: The figures.
        accepting: Whether new requests are welcome; False from a signal to stop on. They are still answered for a
            while. KServe's is always ready.
    """

    def __init__(self, models: Iterable[Model], *, limits: Limits, metrics: Metrics) -> None:
        super().__init__(ModelRepository())
        for model in models:
            self.model_registry.update(model)
        self.limits, self.metrics, self.accepting = limits, metrics, True

    @property
    def models(self) -> Mapping[str, Model]:
        """The models by name."""
        found: Mapping[str, Model] = self.model_registry.get_models()
        return found

    def find_model(self, name: str, wanted: str | None = None) -> Model:
        """Return a model by its name, and its version if one is wanted; KServe has no versions.

        Raises:
            RequestError: There is none.
        """
        found = self.models.get(name)
        if found is None:
            raise RequestError(f"there is no model {name!r:.130}", HTTPStatus.NOT_FOUND)
        if wanted and wanted != found.configuration.version:
            text = f"{name} has the version {found.configuration.version}, and not {wanted!r:.130}"
            raise RequestError(text, HTTPStatus.NOT_FOUND)
        return found

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the server."""
        return {"name": NAME, "version": version("kedro-hone"), "extensions": list(EXTENSIONS)}

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        """Return the metadata of a model, with its version and its runtime."""
        model = self.find_model(model_name)
        found = await super().model_metadata(model_name)
        return {**found, "versions": [model.configuration.version], "platform": model.platform}

    async def ready(self) -> bool:
        """Return whether new requests are welcome."""
        return self.accepting

    async def model_ready(self, model_name: str, infers: bool = False) -> bool:  # noqa: FBT001, FBT002 - KServe's
        """Return whether requests for a model are welcome; before an inference, whether it can be answered."""
        self.find_model(model_name)
        return infers or self.accepting

    def decode(self, body: bytes, *_: Any, **__: Any) -> tuple[bytes, dict[str, Any]]:
        """Return the body as it is: the model reads it, in a thread if it is large. Here others would wait for it."""
        return body, {}

    def encode(self, *_: Any, response: Any, **__: Any) -> tuple[bytes, dict[str, str]]:
        """Return the body of an answer as bytes: KServe checks each value of a dictionary again, and copies it."""
        answer, length = response.to_rest()
        if length is not None:
            return answer, {JSON_LENGTH: str(length)}
        return orjson.dumps({key: value for key, value in answer.items() if value is not None}), {}

    def count(self, model: str, *, protocol: str, code: str, since: float) -> None:
        """Count a request of inference; names that no model has are counted together."""
        label = model if model in self.models else ""
        self.metrics.requests.labels(label, protocol, code).inc()
        self.metrics.seconds.labels(label, protocol).observe(time.monotonic() - since)


def explain_error(error: Exception, *, name: str) -> RequestError:
    """Return the error for the client, which has no details of the server, and log an exception that has some.

    Args:
        error: What was raised.
        name: The request's id; empty if it has none.
    """
    if isinstance(error, RequestError):
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log(f"request {name or '-'}: {error.message}", error=error)
        return error
    if isinstance(error, InvalidInput | InferenceError):  # of KServe's functions: a value that JSON lacks, two contents
        return RequestError(error.reason)
    if isinstance(error, ServerNotReady | ModelNotReady):
        return RequestError("the server is stopping", HTTPStatus.SERVICE_UNAVAILABLE)
    shown = (error.name if isinstance(error, RunError) else "") or name or uuid.uuid4().hex[:12]
    log(f"request {shown}: {describe_exception(error.__cause__ or error)}", error=error)
    text = f"the request failed; the server's log has the reason under {shown!r:.130}"
    return RequestError(text, HTTPStatus.INTERNAL_SERVER_ERROR)
