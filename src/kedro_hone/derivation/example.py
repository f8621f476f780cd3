"""The input example that MLflow stores with a model."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hone_runtime.contract.registry import Registry
from hone_runtime.values.artifact import Artifact
from kedro_hone.sources.source_format import MLMODEL


def read_example(uri: str, registry: Registry, source: Artifact) -> dict[str, NDArray[Any]]:
    """Return the example's columns or arrays by the names of the model's inputs; empty if there is none.

    Args:
        uri: A version of a registry.
        registry: Its registry; the files are pulled again.
        source: The sealed model, with the names of its inputs.

    Raises:
        HoneError: The files cannot be pulled.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "pulled"
        folder.mkdir()
        registry.pull(registry.find_source(uri), folder)
        try:
            noted = yaml.safe_load((folder / MLMODEL).read_text())["saved_input_example_info"]
            place = (folder / noted["artifact_path"]).resolve()
            if not place.is_relative_to(folder.resolve()):  # the file is a stranger's
                return {}
            content = json.loads(place.read_text())
            arrays = _read_content(content, [spec.name for spec in source.inputs])
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            return {}  # an example is a help, and models without one are usual
    return {name: array for name, array in arrays.items() if array.size}


def _read_content(content: Any, names: list[str]) -> dict[str, NDArray[Any]]:
    if "columns" in content:  # a table of pandas, by rows
        columns = zip(*content["data"], strict=True)
        return {str(name): np.asarray(values) for name, values in zip(content["columns"], columns, strict=True)}
    inputs = content.get("inputs", content.get("instances")) if isinstance(content, dict) else content
    if isinstance(inputs, dict):
        return {str(name): np.asarray(values) for name, values in inputs.items()}
    return {names[0]: np.asarray(inputs)} if len(names) == 1 else {}
