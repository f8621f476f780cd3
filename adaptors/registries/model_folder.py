"""The MLflow model folder of a winner, which every registry publishes: MLflow's own classes write its ``MLmodel``."""

from __future__ import annotations

import math
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.plugins import describe_exception
from hone_runtime.contract.proof import EVIDENCE_FOLDER, ProvenWinner
from hone_runtime.contract.tags import FILES
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.learner.versions import write_version_files
from hone_runtime.signing.policy import VERSION_FILES
from hone_runtime.signing.sign import find_signer, sign_version
from hone_runtime.text import clean_text, open_logger
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.forms import FORMS_FOLDER
from hone_runtime.values.manifest import Manifest, copy_tree
from kedro_hone import __version__
from kedro_hone.sources.source_format import MLMODEL, OURS

if TYPE_CHECKING:
    from mlflow.models import Model, ModelSignature

logger = open_logger(__name__)

_WEIGHTS: Final = frozenset({".safetensors", ".bin", ".pt", ".pth"})
LARGEST_EXAMPLE: Final = 1_000_000
"""The largest number of values in an input example; a larger one is left out, since MLflow stores it as JSON."""


def write_winner(
    folder: Path, winner: ProvenWinner, *, name: str, identify: Callable[[Model], None] = lambda _: None
) -> Model:
    """Write a winner's files, manifest, evidence, example and requirements into an empty folder, and sign them.

    Args:
        folder: An empty folder.
        winner: The winner to publish.
        name: The model that it becomes a version of; the last part of a path.
        identify: For a registry that adds an identity to ``MLmodel``; called before that file is written.

    Returns:
        MLflow's description of it, as saved in ``MLmodel``.

    Raises:
        HoneError: ``signing-unusable``: the key in the environment's settings cannot be used.
        HoneError: ``evidence-incomplete``: the evidence was altered since it was proved. ``model-corrupt``: the files
            were altered since they were sealed. ``toolchain-unknown``: the winner's runtime is no longer installed.
    """
    from mlflow.models import Model  # noqa: PLC0415 - slow to import, and only needed to publish
    from mlflow.models.utils import _save_example  # noqa: PLC0415 - for authors of flavors

    artifact, signer = winner.artifact, find_signer()
    _write_environment(folder, artifact)
    copy_tree(winner.files, folder / "artifact", share=True)
    write_manifest(folder / "artifact", artifact)
    winner.copy_evidence(folder / EVIDENCE_FOLDER)
    if winner.companions is not None:
        copy_companions(winner.companions, folder)
    for form, files in winner.forms.items():
        (folder / FORMS_FOLDER).mkdir(exist_ok=True)
        copy_tree(files, folder / FORMS_FOLDER / form, share=True)
    interface = artifact.metadata.get("interface")
    unnamed = interface == "pytorch"
    of_estimator = interface == "sklearn"
    make = partial(make_signature, artifact.inputs, artifact.outputs, unnamed=unnamed)
    model = Model(signature=read_signature(artifact) if of_estimator else make())
    _add_flavors(model, artifact)
    if model.signature is not None and not of_estimator and (example := _make_example(artifact)):
        first, *others = example.values()
        _save_example(model, first if unnamed and not others else example, str(folder))
    model.model_size_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    identify(model)
    model.save(folder / MLMODEL)
    write_version_files(folder, model=name)
    if signer is not None:
        sign_version(folder, signer, name=name)
    return model


def _add_flavors(model: Model, artifact: Artifact) -> None:
    """Add our own flavor, and the pyfunc flavor in the same way as ``mlflow.pyfunc.add_to_model``.

    Importing ``mlflow.pyfunc`` causes warnings about MLflow's own classes.
    """
    described = {"format": artifact.format, "runtime": artifact.runtime, "digest": artifact.digest}
    model.add_flavor(OURS, artifact="artifact", **described)
    model.add_flavor(
        "python_function",
        loader_module="hone_runtime.learner.pyfunc",
        data="artifact",
        env={"conda": "conda.yaml", "virtualenv": "python_env.yaml"},
        python_version=platform.python_version(),
    )


def tag_files(folder: Path) -> dict[str, str]:
    """Return the tag with the digest over all files that ``write_winner`` has written into a folder."""
    return {FILES: Manifest.read(folder / VERSION_FILES).digest}


def tag_metrics(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return the tags with a winner's metrics, for a registry that shows none next to a version."""
    return {f"hone.metric.{metric}": repr(float(value)) for metric, value in metrics.items()}


def make_empty(folder: Path) -> None:
    """Create the folder for pulling a version.

    Raises:
        FileExistsError: The folder is not empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")


def list_companions(source: Path) -> list[str]:
    """Return the files next to a transformers source's weights: configuration, and tokenizer or processor."""
    found = (path for path in sorted(source.rglob("*")) if path.is_file() and path.suffix not in _WEIGHTS)
    return [path.relative_to(source).as_posix() for path in found if not path.name.endswith(".index.json")]


def copy_companions(source: Path, folder: Path, *, known: Mapping[str, Path] = MappingProxyType({})) -> None:
    """Copy the companions; those in ``known``, by name, from the path given there."""
    for name in list_companions(source):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(known.get(name, source / name), folder / name)


def read_signature(artifact: Artifact) -> ModelSignature | None:
    """Return the signature with which an estimator was logged; None if absent.

    If MLflow cannot read it, a warning is issued, and None is returned. No signature is derived: with tensors, MLflow
    would match a table's columns by position, and refuse integers.
    """
    from mlflow.exceptions import MlflowException  # noqa: PLC0415 - slow to import, and only needed to publish
    from mlflow.models import ModelSignature  # noqa: PLC0415 - as above

    notes = artifact.metadata.get("sklearn")
    sides = notes.get("signature") if isinstance(notes, dict) else None
    if not isinstance(sides, dict) or not sides:
        return None
    try:
        return ModelSignature.from_dict(sides)
    except (MlflowException, ValueError, KeyError, TypeError) as error:  # for example from another version of MLflow
        why = clean_text(describe_exception(error))[:300]
        logger.warning("warning   the winner has no signature, since MLflow cannot read its source's: %s", why)
        return None


def make_signature(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, unnamed: bool
) -> ModelSignature | None:
    """Return MLflow's signature of a model; None if a tensor has a type that MLflow's readers do not support.

    A single tensor may be ``unnamed``, as in PyTorch's flavor; MLflow then expects an array, else a dictionary.
    """
    from mlflow import models, types  # noqa: PLC0415 - slow to import, and only needed to publish

    if not all(_is_known(spec.dtype) for spec in (*inputs, *outputs)):
        return None
    sides = []
    for specs in (inputs, outputs):
        shapes = [tuple(size if isinstance(size, int) else -1 for size in spec.shape) for spec in specs]
        names = [None if unnamed and len(specs) == 1 else spec.name for spec in specs]
        dtypes = [np.dtype(spec.dtype) for spec in specs]
        sides.append(types.Schema(list(map(types.TensorSpec, dtypes, shapes, names))))
    return models.ModelSignature(*sides)


def _is_known(name: str) -> bool:
    """Return whether a type is NumPy's own (packages such as ml_dtypes add others) and not text.

    With text in a signature, MLflow refuses arrays of objects, and so the columns of tables.
    """
    try:
        dtype = np.dtype(name)
    except TypeError:
        return False
    return dtype.isbuiltin == 1 and dtype.kind != "U"


def _make_example(artifact: Artifact) -> dict[str, NDArray[Any]]:
    """Return zeros for every input, for the first shape of the artifact, or for one row; {} if too large."""
    sizes = artifact.static_shapes[0].sizes if artifact.static_shapes else {}
    shapes = {
        spec.name: [size if isinstance(size, int) else sizes.get(size, 1) for size in spec.shape]
        for spec in artifact.inputs
    }
    if sum(map(math.prod, shapes.values())) > LARGEST_EXAMPLE:
        return {}
    return {spec.name: np.zeros(shapes[spec.name], spec.dtype) for spec in artifact.inputs}


def _write_environment(folder: Path, artifact: Artifact) -> None:
    """Write the packages that pip must install to load an artifact in its runtime, in MLflow's three files.

    MLflow's own ``pyfunc.save_model`` would also copy a uv project from the current folder.
    """
    from mlflow.utils.environment import _mlflow_conda_env, _PythonEnv  # noqa: PLC0415 - for authors of flavors

    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    extra = f"[{toolchain.extra}]" if toolchain.extra else ""
    requirements = [f"kedro-hone{extra}=={__version__}", *toolchain.runtime_requirements]
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    python = _PythonEnv(build_dependencies=list(_PythonEnv.BUILD_PACKAGES), dependencies=["-r requirements.txt"])
    python.to_yaml(folder / "python_env.yaml")
    _mlflow_conda_env(folder / "conda.yaml", additional_pip_deps=requirements, install_mlflow=False)
