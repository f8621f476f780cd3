"""The errors of a request, in the terms of both protocols."""

from __future__ import annotations

from http import HTTPStatus
from types import MappingProxyType
from typing import Final

CODES: Final = MappingProxyType(
    {
        HTTPStatus.BAD_REQUEST: "INVALID_ARGUMENT",
        HTTPStatus.NOT_FOUND: "NOT_FOUND",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RESOURCE_EXHAUSTED",
        HTTPStatus.TOO_MANY_REQUESTS: "RESOURCE_EXHAUSTED",
        HTTPStatus.INTERNAL_SERVER_ERROR: "INTERNAL",
        HTTPStatus.SERVICE_UNAVAILABLE: "UNAVAILABLE",
    }
)
"""The code of gRPC for each status of HTTP that a request over gRPC can have."""


class RunError(Exception):
    """A model raised an exception, its ``__cause__``, of which the client gets no details.

    Attributes:
        name: The client's name of the request; empty if absent.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class RequestError(Exception):
    """A request that is not answered with a result; the message is sent to the client.

    Attributes:
        status: The status of HTTP; ``CODES`` has that of gRPC.
    """

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.message, self.status = message, status
