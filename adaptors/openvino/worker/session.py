"""Run IR on numpy arrays. Needs OpenVINO and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hone_loading import require_cpu, set_variables

# The telemetry starts a thread that keeps the process alive; only CI and a file in the user's home disable it.
with set_variables(CI="true"):
    import openvino as ov

Arrays = dict[str, np.ndarray[Any, Any]]


class Session:
    """An IR compiled for the CPU, with one request: inputs are shared for the call, outputs are copies."""

    def __init__(self, compiled: Any) -> None:
        self._inputs = {find_name(port): index for index, port in enumerate(compiled.inputs)}
        self._outputs = [find_name(port) for port in compiled.outputs]
        self._compiled = compiled
        self._request = compiled.create_infer_request()

    def run(self, feeds: Arrays) -> Arrays:
        """Return every output by name, for inputs by name."""
        indexed = {self._inputs[name]: array for name, array in feeds.items()}
        results = self._request.infer(indexed, share_inputs=True, share_outputs=False)
        return {name: results[index] for index, name in enumerate(self._outputs)}


def open_session(job: dict[str, Any], properties: dict[str, Any] | None = None) -> Session:
    """Compile the job's ``model.xml`` for the CPU with properties of OpenVINO's own, by default its run options.

    Raises:
        ValueError: The files cannot be read; or the model is for another device; or this CPU does not compute in the
            precision that was asked for, which OpenVINO silently replaces by another.
    """
    require_cpu(job)
    properties = job["input"].get("run_options", {}) if properties is None else properties
    threads = {"INFERENCE_NUM_THREADS": int(job["threads"])}
    compiled = ov.Core().compile_model(read(job["input"]["path"]), "CPU", properties | threads)
    names = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
    wanted = properties.get("INFERENCE_PRECISION_HINT")
    got = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if wanted is not None and names.get(got, got) != names.get(wanted, wanted):
        raise ValueError(f"OpenVINO computes in {got} on this CPU, not in {wanted}")
    return Session(compiled)


def read(folder: str) -> Any:
    """Read ``model.xml`` and ``model.bin``.

    Raises:
        ValueError: They cannot be read.
    """
    for name in ("model.xml", "model.bin"):
        if not Path(folder, name).is_file():
            raise ValueError(f"{name} is missing")
    try:
        return ov.Core().read_model(Path(folder, "model.xml"))
    except RuntimeError as error:
        raise ValueError(f"model.xml and model.bin cannot be read: truncated, corrupt or no IR ({error})") from error


def find_name(port: Any) -> str:
    """Return the tensor's name: the first of its names, or its node's where it has none."""
    return str(min(port.get_names(), default=port.get_node().get_friendly_name()))
