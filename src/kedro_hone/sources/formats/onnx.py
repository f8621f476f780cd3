"""ONNX: a file with its external data, bare or as MLflow's flavor ``onnx``."""

from __future__ import annotations

import re
from typing import Final

from kedro_hone.sources.files import find_entry, find_only, find_relative_name, make_corrupt
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

_NOT_THE_MODEL: Final = re.compile(
    r"MLmodel|(conda|python_env)\.yaml|(requirements|constraints)\.txt|(serving_)?input_example\.json"
    r"|registered_model_meta|LICENSE|README\.md"
)


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``model.onnx``, the only ``.onnx`` file, or the file in the flavor ``onnx``.

    It becomes ``model.onnx``, with all possible external data: every file next to it or below, by its name relative to
    the ONNX file.

    Raises:
        HoneError: ``model-corrupt``.
    """
    folder = pulled.folder
    path = find_only(folder, "model.onnx") if pulled.mlmodel is None else find_entry(pulled, "onnx", "data")
    if path is None:
        return None
    if not path.is_file():
        raise make_corrupt(folder, f"the file {path.name} is missing")
    others = {file: file.relative_to(path.parent).as_posix() for file in sorted(path.parent.rglob("*"))}
    data = [
        (find_relative_name(folder, file), name)
        for file, name in others.items()
        if file.is_file() and file != path and not _NOT_THE_MODEL.fullmatch(name)
    ]
    return Flavor(format="onnx", files=((find_relative_name(folder, path), "model.onnx"), *data))


SOURCE_FORMAT = SourceFormat(
    name="onnx",
    noun="an ONNX file",
    detect=detect,
    seals=frozenset({"onnx"}),
    interface="onnx",
    baseline="ONNX Runtime with its default settings, {threads}",
    order=30,
)
