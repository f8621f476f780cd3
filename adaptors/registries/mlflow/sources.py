"""Sources for demonstrations and tests: an ONNX file or an exported program becomes version 1 of a model.

Neither ``onnx`` nor ``torch`` is needed: what ``mlflow.onnx`` or ``mlflow.pytorch`` would log is plain files.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.adaptors.registries.model_folder import write_mlmodel
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.values.artifact import TensorSpec

_PLACES: Final = {"onnx": "model.onnx", "pytorch": "data/model.pt2"}
_REQUIREMENTS: Final = {"onnx": ("mlflow", "onnx", "onnxruntime"), "pytorch": ("mlflow", "torch")}


def log_source(
    path: Path,
    *,
    name: str,
    flavor: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    tags: Mapping[str, str] | None = None,
    tracking_uri: str | None = None,
) -> VersionInfo:
    """Register a model's file as a new version, as MLflow's own flavors would.

    Args:
        path: An ``.onnx`` or ``.pt2`` file.
        name: The registered model; made when it does not exist.
        flavor: ``onnx`` or ``pytorch``.
        inputs: What the model takes.
        outputs: What it returns.
        tags: The version's tags.
        tracking_uri: MLflow's tracking URI, as for ``MlflowRegistry``.

    Returns:
        The new version.

    Raises:
        HoneError: ``registry-unreachable``.
        KeyError: There is no such flavor.
    """
    place = _PLACES[flavor]

    def write(folder: Path, identity: Mapping[str, Any]) -> None:
        (folder / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / place)
        write_mlmodel(
            folder,
            flavors={flavor: _describe_flavor(flavor)},
            loader=f"mlflow.{flavor}",
            data=Path(place).parts[0],
            inputs=inputs,
            outputs=outputs,
            unnamed=flavor == "pytorch",
            requirements=_REQUIREMENTS[flavor],
            identity=identity,
        )

    return MlflowRegistry(tracking_uri).register(write, name=name, tags=tags or {})


def _describe_flavor(flavor: str) -> dict[str, Any]:
    if flavor == "onnx":
        return {"data": "model.onnx", "providers": ["CPUExecutionProvider"], "onnx_session_options": None, "code": None}
    return {"model_data": "data", "code": None}
