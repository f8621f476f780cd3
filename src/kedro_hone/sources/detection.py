"""What lies in a pulled folder: which format, which files, which interface. Reads names and YAML; executes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import TensorSpec
from kedro_hone.core.values.base import Json
from kedro_hone.learner.manifest import MANIFEST, read_artifact
from kedro_hone.sources.flavor import Flavor
from kedro_hone.sources.signature import read_signature

MLMODEL: Final = "MLmodel"
OURS: Final = "kedro_hone"
"""The name of our flavor in an ``MLmodel``."""
LARGEST_MLMODEL: Final = 4 * 1024 * 1024
_NOT_THE_MODEL: Final = frozenset(
    {
        MLMODEL,
        "conda.yaml",
        "python_env.yaml",
        "requirements.txt",
        "constraints.txt",
        "input_example.json",
        "serving_input_example.json",
        "registered_model_meta",
        "LICENSE",
        "README.md",
    }
)
_SUPPORTED: Final = "an ONNX file, a PyTorch exported program (.pt2), or a winner of kedro-hone"


def read_flavor(folder: Path, *, trust: frozenset[str]) -> Flavor:
    """Return what a pulled folder holds.

    Args:
        folder: An MLflow model folder, or a folder with a model's file.
        trust: What the recipe trusts, such as ``pickle``.

    Returns:
        The format, the files and the signature.

    Raises:
        HoneError: ``pickle-not-trusted``, ``model-unsupported``, ``model-corrupt``, or ``model-external-data`` when a
            link leads out of the folder.
    """
    _refuse_links_out(folder)
    if (folder / MANIFEST).is_file():
        return _read_winner(folder, ".", (), ())
    if not (folder / MLMODEL).is_file():
        return _read_bare(folder, trust)
    model = _read_mlmodel(folder / MLMODEL)
    flavors: dict[str, Any] = model["flavors"]
    try:
        inputs, outputs = read_signature(model.get("signature"))
    except ValueError as error:
        raise _corrupt(folder / MLMODEL, str(error)) from error
    if OURS in flavors:
        return _read_winner(folder, _read_text(flavors[OURS], "artifact", folder), inputs, outputs)
    if "onnx" in flavors:
        path = _find_inside(folder, _read_text(flavors["onnx"], "data", folder))
        return Flavor(format="onnx", files=_list_onnx(folder, path), interface="onnx", inputs=inputs, outputs=outputs)
    if "pytorch" in flavors:
        data = _find_inside(folder, _read_text(flavors["pytorch"], "model_data", folder))
        path = _find_exported_program(folder, data, trust)
        files = ((path.relative_to(folder).as_posix(), "model.pt2"),)
        return Flavor(format="pytorch", files=files, interface="pytorch", inputs=inputs, outputs=outputs)
    raise HoneError(
        "model-unsupported",
        "The model is of no flavor that can be optimized.",
        why=f"Its MLmodel has: {', '.join(sorted(flavors)) or 'none'}. Supported are {_SUPPORTED}.",
        hint="Log the model with mlflow.onnx.log_model or mlflow.pytorch.log_model.",
    )


def _read_winner(folder: Path, place: str, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Flavor:
    root = _find_inside(folder, place)
    artifact = read_artifact(root)
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return Flavor(
        format=artifact.format,
        files=tuple(
            ((root / name).relative_to(folder.resolve()).as_posix(), name) for name in names if name != MANIFEST
        ),
        interface=str(artifact.metadata.get("interface", "onnx")),
        inputs=artifact.inputs or inputs,
        outputs=artifact.outputs or outputs,
        artifact=artifact,
    )


def _read_bare(folder: Path, trust: frozenset[str]) -> Flavor:
    """Read a folder without an ``MLmodel``: the model's file tells."""
    for name, form in (("model.onnx", "onnx"), ("model.pt2", "pytorch")):
        found = sorted(folder.glob(f"*{Path(name).suffix}"))
        path = folder / name if (folder / name) in found else (found[0] if len(found) == 1 else None)
        if path is not None:
            files = _list_onnx(folder, path) if form == "onnx" else ((path.name, name),)
            return Flavor(format=form, files=files, interface=form)
    if any(folder.glob("*.pth")) or any(folder.glob("*.pt")) or any(folder.glob("*.pkl")):
        _find_exported_program(folder, folder, trust)
    names = sorted(path.name for path in folder.iterdir())
    raise HoneError(
        "model-unsupported",
        f"{folder.name} holds no model that can be optimized.",
        why=f"It holds: {', '.join(names[:8]) or 'nothing'}. Supported are {_SUPPORTED}.",
        hint="Name a folder with model.onnx, model.pt2 or an MLmodel, or one .onnx or .pt2 file.",
    )


def _find_exported_program(folder: Path, data: Path, trust: frozenset[str]) -> Path:
    programs = [data] if data.suffix == ".pt2" else sorted(data.glob("*.pt2"))
    if len(programs) == 1:
        return programs[0]
    pickles = sorted(path.name for pattern in ("*.pth", "*.pt", "*.pkl") for path in data.glob(pattern))
    if not pickles:
        raise _corrupt(folder, f"{data.name or 'it'} holds no model.pt2")
    hint = 'Log the model again with mlflow.pytorch.log_model(…, serialization_format="pt2", input_example=…).'
    if "pickle" not in trust:
        raise HoneError(
            "pickle-not-trusted",
            f"The model is a pickle ({pickles[0]}).",
            why="Loading a pickle runs whatever code its author put in, and the recipe does not trust it.",
            hint=hint,
        )
    raise HoneError(
        "model-unsupported",
        f"The model is a pickle ({pickles[0]}).",
        why="The recipe trusts it, but pickled modules cannot be converted yet.",
        hint=hint,
    )


def _list_onnx(folder: Path, path: Path) -> tuple[tuple[str, str], ...]:
    """Return the ONNX file as ``model.onnx``, with all that may be its external data, by the names it knows."""
    if not path.is_file():
        raise _corrupt(folder, f"{path.name} is missing")
    home = path.parent
    beside = [
        file
        for file in sorted(home.rglob("*"))
        if file.is_file() and file != path and file.relative_to(home).as_posix() not in _NOT_THE_MODEL
    ]
    rows = [(path, "model.onnx"), *((file, file.relative_to(home).as_posix()) for file in beside)]
    root = folder.resolve()
    return tuple((file.resolve().relative_to(root).as_posix(), name) for file, name in rows)


def _read_mlmodel(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST_MLMODEL:
        raise _corrupt(path, f"it is larger than {LARGEST_MLMODEL} bytes")
    try:
        model = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(path, f"it is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(model, dict) or not isinstance(model.get("flavors"), dict):
        raise _corrupt(path, "it names no flavors")
    return model


def _read_text(flavor: Json, key: str, folder: Path) -> str:
    value = flavor.get(key) if isinstance(flavor, dict) else None
    if not isinstance(value, str):
        raise _corrupt(folder / MLMODEL, f"the flavor has no {key}")
    return value


def _find_inside(folder: Path, relative: str) -> Path:
    path = (folder / relative).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.exists():
        raise _corrupt(folder / MLMODEL, f"it points to {relative!r}, which is not in the folder")
    return path


def _refuse_links_out(folder: Path) -> None:
    root = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise HoneError(
                "model-external-data",
                f"{path.relative_to(folder)} is a link that leads out of the model's folder.",
                why="What a model consists of must lie in its folder.",
                hint="Replace the link by the file.",
            )


def _corrupt(path: Path, why: str) -> HoneError:
    return HoneError(
        "model-corrupt",
        f"The model in {path.name} cannot be read.",
        why=why[:1].upper() + why[1:] + ".",
        hint="Download or log the model again.",
    )
