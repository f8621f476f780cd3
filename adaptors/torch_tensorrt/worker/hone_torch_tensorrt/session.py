"""Run programs that contain engines: one for each shape, on one GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hone_runtime.sessions import compiled

from .library import DEVICE, require_gpu, torch_tensorrt

ENDING = ".pt2"

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


def open_model(job: Json) -> Any:
    """Return a session with the programs for all shapes that a model was compiled for.

    Raises:
        ValueError: A program cannot be read, the model is for another device or has no shapes, or there is no GPU.
    """
    artifact = job["input"]
    if artifact["device"] != DEVICE:
        raise ValueError(f"the model is for the device {artifact['device']}, and its engines compute on {DEVICE}")
    folder = artifact["path"]
    index = compiled.read_index(folder)
    names = [[spec["name"] for spec in index[side]] for side in compiled.SIDES]
    return compiled.open_shapes(artifact, index["inputs"], lambda shape, _: Session(open_program(folder, shape), names))


class Session:
    """The program for one shape; ``Tensor.cpu`` waits for the GPU, so no ``synchronize`` is needed."""

    has_cache = False

    def __init__(self, program: Any, names: list[list[str]]) -> None:
        """Store a program, and the names of its inputs and its outputs."""
        self._program, (self._inputs, self._outputs) = program, names

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name."""
        given = [torch.from_numpy(np.ascontiguousarray(feeds[name])).to(DEVICE) for name in self._inputs]
        with torch.inference_mode():
            found = self._program(*given)
            values = (found,) if isinstance(found, torch.Tensor) else found
            return {name: value.cpu().numpy() for name, value in zip(self._outputs, values, strict=True)}


def open_program(folder: str, shape: Json) -> Any:
    """Return the program for a shape as a module.

    Raises:
        ValueError: It is missing or cannot be read here, or there is no GPU.
    """
    require_gpu()
    torch_tensorrt()
    path = compiled.require_file(folder, shape, ENDING)
    try:
        return torch.export.load(path).module()  # torch_tensorrt.load would try TorchScript after any error
    except Exception as error:
        why = str(error).strip()[:300]
        raise ValueError(f"{path.name} is damaged, or of another GPU or version of TensorRT: {why}") from error
