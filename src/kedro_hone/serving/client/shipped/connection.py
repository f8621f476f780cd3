"""Calls of a server of the Open Inference Protocol, version 2, by tritonclient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from .tensors import Array, InterfaceError, Tensor, decode, encode, find_differences


class ServerError(RuntimeError):
    """The server refused the request, did not answer in time, or could not be reached; the cause has the details."""


class ServedModel:
    """A client of one model.

    By gRPC, threads may share it. By REST, each thread needs one of its own.
    """

    MODEL: ClassVar[str]
    """The model's name on the server."""
    INPUTS: ClassVar[tuple[Tensor, ...]]
    OUTPUTS: ClassVar[tuple[Tensor, ...]]

    def __init__(
        self,
        url: str,
        *,
        protocol: Literal["grpc", "http"] = "grpc",
        timeout: float = 10.0,
        ssl: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare calls; the server is first called by ``check`` or ``infer``.

        Args:
            url: The host and the port, without ``http://``, such as ``localhost:8081``.
            protocol: ``grpc``, or ``http`` for REST with binary tensors.
            timeout: The longest time for one call, in seconds.
            ssl: Whether the connection is encrypted.
            headers: Sent with each request, such as an authorization.

        Raises:
            ValueError: Another protocol, or a time that is not positive.
        """
        if protocol not in {"grpc", "http"} or not timeout > 0:
            raise ValueError(f"the protocol is grpc or http, and the timeout positive: {protocol!r}, {timeout!r}")
        self._library: Any = import_module(f"tritonclient.{protocol}")
        self._headers = dict(headers or {})
        times = {} if protocol == "grpc" else {"connection_timeout": timeout, "network_timeout": timeout}
        self._client = self._library.InferenceServerClient(url, ssl=ssl, **times)
        self._grpc, self._limits = protocol == "grpc", {"client_timeout": timeout} if protocol == "grpc" else {}

    def check(self) -> None:
        """Compare the server's model with the interface that this package was generated from.

        Raises:
            InterfaceError: The model on the server has other inputs or outputs.
            ServerError: The server has no such model, or does not answer.
        """
        form = {"as_json": True} if self._grpc else {}
        metadata = _call(self._client.get_model_metadata, self.MODEL, headers=self._headers, **form, **self._limits)
        differences = [
            *find_differences("input", self.INPUTS, metadata.get("inputs", ())),
            *find_differences("output", self.OUTPUTS, metadata.get("outputs", ())),
        ]
        if differences:
            raise InterfaceError(f"the model {self.MODEL!r} is another one: {'; '.join(differences)}")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _infer(self, /, **arrays: Array) -> dict[str, Array]:
        """Return the outputs by the names of the result's fields, for an array for each argument."""
        sizes: dict[str, int] = {}
        encoded = encode(self.INPUTS, arrays, sizes)
        inputs = [self._make_input(one, encoded[one.name]) for one in self.INPUTS]
        outputs = [self._library.InferRequestedOutput(one.name) for one in self.OUTPUTS]
        options = {"outputs": outputs, "headers": self._headers, **self._limits}
        result = _call(self._client.infer, self.MODEL, inputs, **options)
        return decode(self.OUTPUTS, {one.name: result.as_numpy(one.name) for one in self.OUTPUTS}, sizes)

    def _make_input(self, tensor: Tensor, array: Array) -> Any:
        made = self._library.InferInput(tensor.name, list(array.shape), tensor.datatype)
        made.set_data_from_numpy(array)
        return made


def _call(function: Callable[..., Any], model: str, *arguments: Any, **options: Any) -> Any:
    try:
        return function(model, *arguments, **options)
    except Exception as error:  # the arguments were checked; libraries below raise many kinds
        raise ServerError(f"the call of the model {model!r} failed: {error}") from error
