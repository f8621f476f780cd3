"""What a server is started with: one JSON file, shared by `kedro hone serve`, images and the server itself.

The server is started by::

    python -P -m kedro_hone.serving.server CONFIGURATION.json

in an environment of KServe (``serving/server/requirements.lock``), with the files of
``kedro_hone.serving.runtime_files`` on ``PYTHONPATH`` and ``ORT_DISABLE_TELEMETRY=1``. This file is a
``Configuration``; the smallest one is::

    {"models": [{"name": "digits", "version": "4", "uri": "models:/digits/4", "folder": "digits",
                 "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}],
                 "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}]}]}

``kedro_hone.serving.launch.describe_model`` returns the value of a winner. A folder may be relative to the file.
When all processes are ready, one line is printed to standard output. On SIGTERM and SIGINT the server is drained, and
its exit code is 0. It is 3 if the configuration, a model or a port cannot be used; then nothing listens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from hone_runtime.values.base import Value


class TensorDescription(Value):
    """An input or output in the terms of the Open Inference Protocol.

    Attributes:
        shape: The sizes; -1 for a dynamic dimension.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]


class Batching(Value):
    """How requests of several clients are joined into one call of the model.

    Attributes:
        rows: The largest number of rows of a joined call.
        delay_ms: How long the first request waits for others, in milliseconds.
    """

    rows: int = Field(ge=2, le=4096)
    delay_ms: float = Field(2.0, ge=0, le=1000, allow_inf_nan=False)


class TextInput(Value):
    """How texts become the inputs of a model.

    Attributes:
        tokenizer: The file ``tokenizer.json``; it may be relative to the model's folder.
        length: The largest number of tokens of a row; longer texts are truncated.
        pad_token: The token that fills shorter rows.
        prompt: The text before each text.
        lower: Whether texts are turned into lower case.
        left: Whether rows are filled on the left.
        truncates_left: Whether rows are truncated on the left.
    """

    tokenizer: Path
    length: int = Field(ge=1)
    pad_token: str
    prompt: str = ""
    lower: bool = False
    left: bool = False
    truncates_left: bool = False


class ModelConfiguration(Value):
    """One model of a server.

    Attributes:
        name: Its name in URLs and in gRPC.
        version: The version that the server accepts in requests, besides none.
        uri: Where it comes from, for the log.
        folder: The published version: the artifact, with its golden rows; or the artifact's files only.
        inputs: The inputs of the artifact.
        outputs: The outputs of the artifact.
        threads: The runtime's number of threads; None: as many as measured.
        vouched: Whether code may be opened: the signature was checked, or the user trusts the author.
        on_mismatch: What to do if the outputs for the golden rows differ here.
        shapes: Sizes of the dynamic dimensions by name, each of which is called once before the model is ready.
        batching: How requests are joined; None: each is a call of its own.
        text: How texts become the model's inputs; None: requests contain the inputs themselves.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    version: str = Field("1", pattern=r"^[A-Za-z0-9._-]{1,128}$")
    uri: str = ""
    folder: Path
    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]
    threads: int | None = Field(None, ge=1)
    vouched: bool = False
    on_mismatch: Literal["refuse", "warn"] = "refuse"
    shapes: tuple[dict[str, int], ...] = ()
    batching: Batching | None = None
    text: TextInput | None = None


class Limits(Value):
    """The limits of requests, on both ports.

    Attributes:
        request_bytes: The largest request, also after it is decompressed.
        rows: The largest number of rows of a request.
        queue: The largest number of requests of a model that a process has accepted and not answered.
        grace_seconds: How long accepted requests may take after a signal to stop.
    """

    request_bytes: int = Field(64 << 20, ge=1 << 10, le=2**31 - 1)
    rows: int = Field(1024, ge=1)
    queue: int = Field(128, ge=1)
    grace_seconds: float = Field(30.0, ge=0, le=3600, allow_inf_nan=False)


class Configuration(Value):
    """A server: its models, where it listens, and its limits.

    Attributes:
        models: The models, each with another name.
        host: The address to listen on.
        http_port: The port of REST; 0 for any free one.
        grpc_port: The port of gRPC; 0 for any free one.
        workers: The number of processes; each opens all models, and they share both ports.
        limits: The limits of requests.
        json_line: Whether the line about the start is JSON.
    """

    models: tuple[ModelConfiguration, ...] = Field(min_length=1)
    host: str = "127.0.0.1"
    http_port: int = Field(8080, ge=0, le=65535)
    grpc_port: int = Field(8081, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=64)
    limits: Limits = Limits()
    json_line: bool = False

    @model_validator(mode="after")
    def _check_names(self) -> Configuration:
        names = [one.name for one in self.models]
        if len(set(names)) < len(names):
            raise ValueError("two models have the same name")
        if self.http_port == self.grpc_port != 0:
            raise ValueError("REST and gRPC have the same port")
        return self


def read_configuration(path: Path) -> Configuration:
    """Return the configuration in a file, with folders that do not depend on the current folder.

    Raises:
        OSError, ValueError: The file cannot be read, or is no configuration.
    """
    found = Configuration.model_validate_json(path.read_bytes())
    models = tuple(_place(one, path.absolute().parent) for one in found.models)
    return found.model_copy(update={"models": models})


def _place(model: ModelConfiguration, base: Path) -> ModelConfiguration:
    folder = base / model.folder
    text = model.text and model.text.model_copy(update={"tokenizer": folder / model.text.tokenizer})
    return model.model_copy(update={"folder": folder, "text": text})
