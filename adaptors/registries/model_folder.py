"""The MLflow model folder of a winner, which every registry publishes: MLflow's own classes write its ``MLmodel``."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import yaml

from kedro_hone import __version__
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.store.manifest import copy_tree
from kedro_hone.core.values.artifact import Artifact, TensorSpec
from kedro_hone.learner.manifest import write_manifest
from kedro_hone.sources.source_format import MLMODEL, OURS

if TYPE_CHECKING:
    from mlflow.models import Model, ModelSignature
    from mlflow.types import Schema

ARTIFACT: Final = "artifact"
EVIDENCE: Final = "evidence"
LOADER: Final = "kedro_hone.learner.pyfunc"
LARGEST_EXAMPLE: Final = 1_000_000
"""Numbers in an input example; a larger one is left out, since MLflow keeps it as JSON."""


def write_winner(
    folder: Path, winner: ProvenWinner, *, requirements: Sequence[str], identity: Mapping[str, Any] | None = None
) -> None:
    """Write the model folder of a winner: its files, manifest, evidence, signature, example and requirements.

    Args:
        folder: An empty directory.
        winner: The winner with its evidence.
        requirements: What pip must install to load it, such as ``find_requirements`` returns.
        identity: Fields of the ``MLmodel``, such as MLflow's ``model_id``.

    Raises:
        HoneError: ``evidence-incomplete``: the evidence was altered since it was proved. ``model-corrupt``: the files
            were altered since they were sealed.
    """
    from mlflow.models import Model  # noqa: PLC0415 - slow to import, and only needed to publish

    artifact = winner.artifact
    copy_tree(winner.files, folder / ARTIFACT, share=False)
    write_manifest(folder / ARTIFACT, artifact)
    winner.copy_evidence(folder / EVIDENCE)
    _write_environment(folder, requirements)
    unnamed = artifact.metadata.get("interface") == "pytorch"
    model = Model(**(identity or {}))
    model.signature = make_signature(artifact.inputs, artifact.outputs, unnamed=unnamed)
    model.add_flavor(OURS, artifact=ARTIFACT, format=artifact.format, runtime=artifact.runtime, digest=artifact.digest)
    # As mlflow.pyfunc.add_to_model does; importing mlflow.pyfunc warns of MLflow's own classes.
    model.add_flavor(
        "python_function",
        loader_module=LOADER,
        data=ARTIFACT,
        env={"conda": "conda.yaml", "virtualenv": "python_env.yaml"},
        python_version=platform.python_version(),
    )
    if model.signature is not None:
        _write_example(folder, model, artifact, unnamed=unnamed)
    model.model_size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    model.save(folder / MLMODEL)


def find_requirements(artifact: Artifact) -> tuple[str, ...]:
    """Return what pip must install to load an artifact in its runtime.

    Raises:
        HoneError: ``toolchain-unknown``.
    """
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    extra = f"[{toolchain.extra}]" if toolchain.extra else ""
    return (f"kedro-hone{extra}=={__version__}", *toolchain.runtime_requirements)


def make_signature(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, unnamed: bool
) -> ModelSignature | None:
    """Return MLflow's signature of a model.

    Args:
        inputs: The model's inputs.
        outputs: The model's outputs.
        unnamed: Whether a single tensor goes without its name, as in PyTorch's flavor; MLflow then asks for an array,
            else for a dictionary.

    Returns:
        The signature, or None when there is a type that numpy does not know, such as bfloat16, or text: by a signature
        with text MLflow refuses arrays of objects, and so the columns of tables.
    """
    from mlflow.models import ModelSignature  # noqa: PLC0415

    try:
        return ModelSignature(*(_make_schema(side, unnamed=unnamed and len(side) == 1) for side in (inputs, outputs)))
    except TypeError:
        return None


def _make_schema(specs: Sequence[TensorSpec], *, unnamed: bool) -> Schema:
    from mlflow.types import Schema  # noqa: PLC0415
    from mlflow.types import TensorSpec as MlflowSpec  # noqa: PLC0415

    def convert(spec: TensorSpec) -> MlflowSpec:
        shape = tuple(size if isinstance(size, int) else -1 for size in spec.shape)
        return MlflowSpec(_find_dtype(spec.dtype), shape, None if unnamed else spec.name)

    return Schema(list(map(convert, specs)))


def _find_dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind == "U":
        raise TypeError("MLflow takes no objects for text")
    if dtype.isbuiltin != 1:  # packages such as ml_dtypes teach numpy types that MLflow's readers need not know
        raise TypeError(f"{name} is no type of numpy's own")
    return dtype


def _write_example(folder: Path, model: Model, artifact: Artifact, *, unnamed: bool) -> None:
    """Write zeros for every input, at the first shape that the artifact was made for, or one row."""
    sizes = artifact.static_shapes[0].sizes if artifact.static_shapes else {}
    example = {
        spec.name: np.zeros([size if isinstance(size, int) else sizes.get(size, 1) for size in spec.shape], spec.dtype)
        for spec in artifact.inputs
    }
    if not example or sum(array.size for array in example.values()) > LARGEST_EXAMPLE:
        return
    rows = {name: array.tolist() for name, array in example.items()}
    value = next(iter(rows.values())) if unnamed and len(rows) == 1 else rows
    (folder / "input_example.json").write_text(json.dumps(value), encoding="utf-8")
    (folder / "serving_input_example.json").write_text(json.dumps({"inputs": value}), encoding="utf-8")
    model.saved_input_example_info = {
        "artifact_path": "input_example.json",
        "serving_input_path": "serving_input_example.json",
        "type": "ndarray",
    }


def _write_environment(folder: Path, requirements: Sequence[str]) -> None:
    # MLflow writes these only from pyfunc.save_model, which also copies a uv project that is in the current folder.
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    python = platform.python_version()
    build = ["pip", "setuptools", "wheel"]
    conda = ["pip", f"python={python}", {"pip": list(requirements)}]
    files = {
        "python_env.yaml": {"python": python, "build_dependencies": build, "dependencies": ["-r requirements.txt"]},
        "conda.yaml": {"name": "mlflow-env", "channels": ["conda-forge"], "dependencies": conda},
    }
    for name, value in files.items():
        (folder / name).write_text(yaml.safe_dump(value, default_flow_style=False), encoding="utf-8")
