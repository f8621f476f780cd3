"""A model of the server: opened, checked, warmed up, and called in threads of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from kserve import InferRequest, InferResponse
from kserve.model import InferenceModel

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.contract.proof import EVIDENCE_FOLDER, GOLDEN
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Arrays
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.loader import load
from hone_runtime.learner.model import Learner
from hone_runtime.learner.runtimes import choose_threads, count_calls
from kedro_hone.serving.server.batching import Batcher
from kedro_hone.serving.server.checks import BATCH, choose_outputs, read_inputs
from kedro_hone.serving.server.configuration import Limits, ModelConfiguration, TensorDescription
from kedro_hone.serving.server.failures import RequestError, RunError
from kedro_hone.serving.server.independence import check_batching
from kedro_hone.serving.server.logs import log
from kedro_hone.serving.server.messages import JSON_LENGTH, SIZE, make_response, read_request
from kedro_hone.serving.server.metrics import Metrics
from kedro_hone.serving.server.tensors import check_result, find_dtype
from kedro_hone.serving.server.texts import TEXT_INPUT, Tokenizer
from kedro_hone.serving.server.warmup import warm_up

_LARGE: Final = 1 << 18
"""Bytes from which a request is read in a thread, so that other requests and probes are answered meanwhile."""


class Model(InferenceModel):  # type: ignore[misc]  # KServe has no types
    """A model that is ready to be called.

    It is not a ``kserve.Model``, whose hooks and histograms take 0.1 ms of each call; ``Metrics`` has more of them.

    Attributes:
        configuration: Its value in the server's configuration.
        platform: The runtime and the format, for metadata.

    Args:
        configuration: Its value in the server's configuration.
        learner: The opened artifact.
        limits: The limits of requests.
        metrics: Where its calls are counted.
    """

    def __init__(
        self, configuration: ModelConfiguration, learner: Learner, *, limits: Limits, metrics: Metrics
    ) -> None:
        super().__init__(configuration.name)
        self.ready = True
        self.configuration, self._learner, self._limits, self._metrics = configuration, learner, limits, metrics
        artifact = learner.artifact
        self.platform = f"{artifact.runtime}_{artifact.format}"
        self._inputs: tuple[TensorDescription, ...] = (TEXT_INPUT,) if configuration.text else configuration.inputs
        self._tokenizer = Tokenizer(configuration.text, artifact) if configuration.text else None
        self._types = {one.name: one.datatype for one in configuration.outputs}
        threads = choose_threads(artifact, configuration.threads)
        calls = 1 if configuration.batching else count_calls(artifact, threads)
        self._caller = ThreadPoolExecutor(calls, f"hone-{configuration.name}")
        self._reader = ThreadPoolExecutor(1, f"hone-{configuration.name}-reader")
        self._batcher = Batcher(self._call, configuration.batching) if configuration.batching else None
        noted: Any = artifact.metadata.get("transformers") or {}
        self._sizes: dict[str, int] = {**(noted.get("limits") or {}), BATCH: limits.rows}
        self._pending = 0

    @property
    def pending(self) -> int:
        """The number of requests that were accepted and are not answered."""
        return self._pending

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request as accepted, until it is answered.

        Raises:
            RequestError: Too many others are.
        """
        if self._pending >= self._limits.queue:
            text = f"{self.name} has {self._pending} requests to answer, and accepts no more"
            raise RequestError(text, HTTPStatus.TOO_MANY_REQUESTS)
        self._pending += 1
        gauge = self._metrics.pending.labels(self.name)
        gauge.set(self._pending)
        try:
            yield
        finally:
            self._pending -= 1
            gauge.set(self._pending)

    def get_input_types(self) -> list[dict[str, Any]]:
        """Return the inputs of requests."""
        return [one.model_dump(mode="json") for one in self._inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        """Return the outputs in answers."""
        return [one.model_dump(mode="json") for one in self.configuration.outputs]

    async def __call__(
        self, body: bytes | InferRequest, headers: Mapping[str, str] | None = None, _: object = None
    ) -> tuple[InferResponse, dict[str, str]]:
        """Return the answer to a request, and no headers.

        Args:
            body: The body of a request over HTTP, or the request of gRPC.
            headers: The headers, in lower case; from gRPC ``SIZE``.

        Raises:
            RequestError: The request is invalid, or JSON cannot express an output.
            RunError: The model raised an exception.
        """
        found = headers or {}
        length, size = found.get(JSON_LENGTH), len(body) if isinstance(body, bytes) else int(found.get(SIZE, 0))
        if size < _LARGE and self._tokenizer is None:
            request, feeds = self._read(body, length)
        else:
            loop = asyncio.get_running_loop()
            request, feeds = await loop.run_in_executor(self._reader, self._read, body, length)
        names = choose_outputs([one.name for one in request.request_outputs or ()], self._types)
        try:
            outputs = await (self._batcher.run(feeds) if self._batcher else self._call(feeds, time.monotonic()))
        except HoneError as error:  # sizes that the model was not compiled for
            raise RequestError(f"{error.what} {error.why}") from error
        except Exception as error:
            raise RunError(request.id or "") from error
        results = {name: (self._types[name], check_result(name, self._types[name], outputs[name])) for name in names}
        return make_response(request, version=self.configuration.version, results=results), {}

    def _read(self, body: bytes | InferRequest, length: str | None) -> tuple[InferRequest, Arrays]:
        request = read_request(body, length, model=self.name) if isinstance(body, bytes) else body
        if self._tokenizer is not None:
            return request, self._tokenizer.read(request.inputs, most_rows=self._limits.rows)
        return request, read_inputs(
            request.inputs,
            described=self.configuration.inputs,
            specs=self._learner.artifact.inputs,
            limits=self._sizes,
            finite=not request.from_grpc,
        )

    async def _call(self, feeds: Arrays, since: float) -> Arrays:
        return await asyncio.get_running_loop().run_in_executor(self._caller, self._run, feeds, since)

    def _run(self, feeds: Arrays, since: float) -> Arrays:
        started = time.monotonic()
        self._metrics.queue.labels(self.name).observe(started - since)
        found = self._learner.run(feeds)
        self._metrics.run.labels(self.name).observe(time.monotonic() - started)
        self._metrics.rows.labels(self.name).observe(self._count_rows(feeds))
        return found

    def _count_rows(self, feeds: Arrays) -> int:
        specs = self._learner.artifact.inputs
        return next((len(feeds[spec.name]) for spec in specs if spec.shape[:1] == (BATCH,)), 1)


def open_model(configuration: ModelConfiguration, *, limits: Limits, metrics: Metrics) -> Model:
    """Open a model, compare its outputs for the golden rows, and call it once at each shape.

    Raises:
        HoneError: ``winner-differs``, ``batching-unfit``, ``serving-unsupported``, or as in ``load``.
    """
    learner = _load(configuration)
    artifact, golden = learner.artifact, _read_golden(configuration)
    _check_types(configuration)
    if golden is None:
        log(f"{configuration.name}: there are no golden rows, so its outputs are not compared", warning=True)
    for said in warm_up(learner.run, artifact, golden=golden, shapes=configuration.shapes):
        log(f"{configuration.name}: {said}", warning=True)
    if configuration.batching:
        check_batching(configuration.name, artifact, learner.run, golden=golden, rows=configuration.batching.rows)
    return Model(configuration, learner, limits=limits, metrics=metrics)


def _load(configuration: ModelConfiguration) -> Learner:
    try:
        return load(
            configuration.folder,
            interface="onnx",
            threads=configuration.threads,
            trust=["native"] if configuration.vouched else (),
            on_mismatch=configuration.on_mismatch,
        )
    except ImportError as error:
        raise HoneError(
            "serving-unsupported",
            f"The runtime of {configuration.name} is not in the server's environment.",
            why=describe_exception(error),
            hint="Serve it with `kedro-hone serve`, which builds an environment that has it.",
        ) from error


def _read_golden(configuration: ModelConfiguration) -> Golden | None:
    """Return the golden rows, which ``load`` has compared; it has raised an error if they cannot be read."""
    return Golden.read(configuration.folder / EVIDENCE_FOLDER / GOLDEN)


def _check_types(configuration: ModelConfiguration) -> None:
    sides: Sequence[Any] = (*configuration.inputs, *configuration.outputs)
    for one in sides:
        try:
            find_dtype(one.datatype)
        except KeyError as error:
            raise HoneError(
                "serving-unsupported",
                f"The tensor {one.name!r} of {configuration.name} cannot be served.",
                why=f"Its type is {one.datatype}: {describe_exception(error)}",
                hint="Call the winner in your own process by kedro_hone.load.",
            ) from error
