"""Run IR on numpy arrays. Needs OpenVINO and nothing else."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Job = dict[str, Any]
Array = np.ndarray[Any, Any]


@contextmanager
def without_telemetry() -> Iterator[None]:
    """Keep the telemetry off for a while; the process may be the user's, whose variables are left as they were.

    It starts a thread that keeps the process alive, and is disabled only by a file in the user's home or by the
    variable CI.
    """
    before = {variable: os.environ.get(variable) for variable in ("CI", "NNCF_CI")}
    os.environ.update(dict.fromkeys(before, "true"))
    try:
        yield
    finally:
        for variable, value in before.items():
            os.environ.pop(variable)
            if value is not None:
                os.environ[variable] = value


def import_quietly(name: str) -> Any:
    """Return a package of the toolchain, imported with its telemetry off."""
    with without_telemetry():
        return importlib.import_module(name)


class Session:
    """An IR compiled for the CPU, with one request: inputs are shared for the call, outputs are copies."""

    def __init__(self, compiled: Any) -> None:
        self._inputs = {find_name(port): index for index, port in enumerate(compiled.inputs)}
        self._outputs = [find_name(port) for port in compiled.outputs]
        self._compiled = compiled
        self._request = compiled.create_infer_request()

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        indexed = {self._inputs[name]: array for name, array in feeds.items()}
        results = self._request.infer(indexed, share_inputs=True, share_outputs=False)
        return {name: results[index] for index, name in enumerate(self._outputs)}


def open_session(job: Job, properties: dict[str, Any]) -> Session:
    """Compile the job's ``model.xml`` for the CPU.

    Raises:
        ValueError: The files cannot be read; or this CPU does not compute in the precision that was asked for, which
            OpenVINO silently replaces by another.
    """
    model, threads = read(Path(job["input"]["path"])), {"INFERENCE_NUM_THREADS": int(job["threads"])}
    compiled = import_quietly("openvino").Core().compile_model(model, "CPU", properties | threads)
    names = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
    wanted = properties.get("INFERENCE_PRECISION_HINT")
    got = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if wanted is not None and names.get(got, got) != names.get(wanted, wanted):
        raise ValueError(f"OpenVINO computes in {got} on this CPU, not in {wanted}")
    return Session(compiled)


def read(folder: Path) -> Any:
    """Read ``model.xml`` and ``model.bin``.

    Raises:
        ValueError: They cannot be read.
    """
    for name in ("model.xml", "model.bin"):
        if not (folder / name).is_file():
            raise ValueError(f"{name} is missing")
    try:
        return import_quietly("openvino").Core().read_model(folder / "model.xml")
    except RuntimeError as error:
        raise ValueError(f"model.xml and model.bin cannot be read: truncated, corrupt or no IR ({error})") from error


def find_name(port: Any) -> str:
    """Return the tensor's name: the first of its names, or its node's where it has none."""
    return str(min(port.get_names(), default=port.get_node().get_friendly_name()))
