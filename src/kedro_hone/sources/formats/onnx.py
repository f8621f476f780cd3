"""ONNX: a file with its external data, bare or as MLflow's flavor ``onnx``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kedro_hone.sources.files import find_entry, find_only, make_corrupt, name_in
from kedro_hone.sources.flavor import Flavor
from kedro_hone.sources.source_format import MLMODEL, Pulled, SourceFormat

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


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``model.onnx``, the only ``.onnx`` file, or the file that the flavor ``onnx`` names.

    Args:
        pulled: What was pulled.

    Returns:
        The file as ``model.onnx``, with all that may be its external data; None when there is no such file.

    Raises:
        HoneError: ``model-corrupt``.
    """
    folder = pulled.folder
    if pulled.mlmodel is None:
        path = find_only(folder, "model.onnx")
    else:
        path = find_entry(folder, pulled.mlmodel, "onnx", "data") if "onnx" in pulled.mlmodel.flavors else None
    return None if path is None else Flavor(format="onnx", files=_list_files(folder, path))


def _list_files(folder: Path, path: Path) -> tuple[tuple[str, str], ...]:
    """Return the ONNX file, and every file next to it or below, by the name that the ONNX file would know it by."""
    if not path.is_file():
        raise make_corrupt(folder, f"{path.name} is missing")
    home = path.parent
    others = [
        (name_in(folder, file), file.relative_to(home).as_posix())
        for file in sorted(home.rglob("*"))
        if file.is_file() and file != path and file.relative_to(home).as_posix() not in _NOT_THE_MODEL
    ]
    return ((name_in(folder, path), "model.onnx"), *others)


SOURCE_FORMAT = SourceFormat(
    name="onnx",
    noun="an ONNX file",
    detect=detect,
    seals=frozenset({"onnx"}),
    interface="onnx",
    baseline="ONNX Runtime with its default settings, {threads}",
    order=30,
)
