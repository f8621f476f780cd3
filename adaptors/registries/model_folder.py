"""The MLflow model folder of a winner or a source, written as plain files: no MLflow is needed to make one."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from kedro_hone import __version__
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.learner.manifest import list_files, write_manifest
from kedro_hone.sources.detection import MLMODEL, OURS
from kedro_hone.sources.signature import write_signature

ARTIFACT: Final = "artifact"
EVIDENCE: Final = "evidence"
LOADER: Final = "kedro_hone.learner.pyfunc"
LARGEST_EXAMPLE: Final = 1_000_000
"""Numbers in an input example; a larger one is left out, since MLflow keeps it as JSON."""


def write_winner(
    folder: Path,
    winner: ProvenWinner,
    *,
    requirements: Sequence[str],
    example: Mapping[str, np.ndarray] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> None:
    """Write the model folder of a winner: its files, manifest, evidence, signature, example and requirements.

    Args:
        folder: An empty directory.
        winner: The winner with what proves it.
        requirements: What pip must install to load it.
        example: One array for each input; one row of zeros when not given.
        identity: Entries for the ``MLmodel``, such as MLflow's ``model_id``.

    Raises:
        HoneError: ``evidence-incomplete``: the evidence was altered since it was proved.
    """
    artifact = winner.artifact
    for path in list_files(artifact.folder):
        target = folder / ARTIFACT / path.relative_to(artifact.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    write_manifest(folder / ARTIFACT, artifact)
    winner.copy_evidence(folder / EVIDENCE)
    flavor = {"artifact": ARTIFACT, "format": artifact.format, "runtime": artifact.runtime, "digest": artifact.digest}
    write_mlmodel(
        folder,
        flavors={OURS: flavor},
        loader=LOADER,
        data=ARTIFACT,
        inputs=artifact.inputs,
        outputs=artifact.outputs,
        unnamed=artifact.metadata.get("interface") == "pytorch",
        requirements=requirements,
        example=make_example(artifact) if example is None else example,
        identity=identity,
    )


def write_mlmodel(
    folder: Path,
    *,
    flavors: Mapping[str, Any],
    loader: str,
    data: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    unnamed: bool,
    requirements: Sequence[str],
    example: Mapping[str, np.ndarray] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> None:
    """Write ``MLmodel`` and the files that it names beside a model's own files.

    Args:
        folder: Where the model's files lie.
        flavors: The flavors beside ``python_function``.
        loader: The module that ``mlflow.pyfunc`` loads the model with.
        data: What that module is given, relative to the folder.
        inputs: The model's inputs.
        outputs: The model's outputs.
        unnamed: Whether a single tensor has no name, as in PyTorch's flavor.
        requirements: What pip must install.
        example: An example of the inputs, or None.
        identity: More entries, such as ``model_id``.
    """
    signature = write_signature(inputs, outputs, unnamed=unnamed)
    model: dict[str, Any] = {
        "flavors": {
            **flavors,
            "python_function": {
                "data": data,
                "env": {"conda": "conda.yaml", "virtualenv": "python_env.yaml"},
                "loader_module": loader,
                "python_version": platform.python_version(),
            },
        },
        "mlflow_version": metadata.version("mlflow-skinny"),
        "model_size_bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "signature": signature,
        "utc_time_created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        **(identity or {}),
    }
    if signature and example and sum(array.size for array in example.values()) <= LARGEST_EXAMPLE:
        rows = {name: array.tolist() for name, array in example.items()}
        value = next(iter(rows.values())) if unnamed and len(rows) == 1 else rows
        (folder / "input_example.json").write_text(json.dumps(value), encoding="utf-8")
        (folder / "serving_input_example.json").write_text(json.dumps({"inputs": value}), encoding="utf-8")
        model["saved_input_example_info"] = {
            "artifact_path": "input_example.json",
            "serving_input_path": "serving_input_example.json",
            "type": "ndarray",
        }
    _write_yaml(folder / MLMODEL, model)
    _write_environment(folder, requirements)


def list_requirements(toolchain: Toolchain) -> tuple[str, ...]:
    """Return what pip must install to load a winner that a toolchain runs."""
    extra = f"[{toolchain.extra}]" if toolchain.extra else ""
    return (f"kedro-hone{extra}=={__version__}", *toolchain.runtime_requirements)


def make_example(artifact: Artifact) -> dict[str, np.ndarray] | None:
    """Return zeros for every input, at the first shape that the artifact was made for, or one row.

    Returns:
        The arrays, or None when there is a type that numpy does not know.
    """
    sizes = artifact.static_shapes[0].sizes if artifact.static_shapes else {}
    try:
        return {
            spec.name: np.zeros(
                [size if isinstance(size, int) else sizes.get(size, 1) for size in spec.shape], np.dtype(spec.dtype)
            )
            for spec in artifact.inputs
        }
    except TypeError:
        return None


def _write_environment(folder: Path, requirements: Sequence[str]) -> None:
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    python = platform.python_version()
    build = ["pip", "setuptools", "wheel"]
    pip = {"python": python, "build_dependencies": build, "dependencies": ["-r requirements.txt"]}
    _write_yaml(folder / "python_env.yaml", pip)
    conda = ["pip", f"python={python}", {"pip": list(requirements)}]
    _write_yaml(folder / "conda.yaml", {"name": "mlflow-env", "channels": ["conda-forge"], "dependencies": conda})


def _write_yaml(path: Path, value: Any) -> None:
    path.write_text(yaml.safe_dump(value, default_flow_style=False), encoding="utf-8")
