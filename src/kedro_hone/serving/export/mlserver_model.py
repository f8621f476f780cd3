"""A winner in MLServer, by ``kedro_hone.load``; exported as ``model.py`` next to ``model-settings.json``.

Its golden rows are compared when it is loaded: if its outputs differ here, the model does not become ready.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput
from mlserver.utils import get_model_uri

import kedro_hone


class HoneModel(MLModel):  # type: ignore[misc]  # mypy does not see MLServer
    """The winner in the folder ``winner``; tensors have the names, types and shapes of ``model-settings.json``."""

    async def load(self) -> bool:
        """Open the winner, and check its signature if that was required when it was exported."""
        extra = self.settings.parameters.extra
        policy = kedro_hone.Policy(**extra["verify"]) if extra["verify"] else None
        uri = await get_model_uri(self.settings)
        self._run = kedro_hone.load(uri, verify=policy, trust=extra["trust"], on_mismatch="refuse").run
        self._datatypes = {output.name: output.datatype for output in self.settings.outputs}
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Return all outputs.

        Raises:
            InferenceError: The inputs are not those of the model.
        """
        feeds = {tensor.name: _read(tensor) for tensor in payload.inputs}
        expected = {tensor.name for tensor in self.settings.inputs}
        if feeds.keys() != expected:
            raise InferenceError(f"the inputs are {sorted(expected)}, and not {sorted(feeds)}")
        found = await asyncio.to_thread(self._run, feeds)
        return InferenceResponse(
            id=payload.id,
            model_name=self.name,
            model_version=self.version,
            outputs=[_write(name, self._datatypes[name], array) for name, array in found.items()],
        )


def _read(tensor: RequestInput) -> np.ndarray[Any, Any]:
    if tensor.datatype == "BYTES":
        return np.array(StringCodec.decode_input(tensor)).reshape(tensor.shape)
    array: np.ndarray[Any, Any] = NumpyCodec.decode_input(tensor)
    return array


def _write(name: str, datatype: str, array: np.ndarray[Any, Any]) -> ResponseOutput:
    data = array.ravel().tolist()
    values = [str(text).encode() for text in data] if datatype == "BYTES" else data
    return ResponseOutput(name=name, datatype=datatype, shape=list(array.shape), data=values)
