"""TensorFlow's SavedModel: a folder, bare or as MLflow's flavors ``tensorflow`` and ``keras`` write it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hone_runtime.values.base import Json
from kedro_hone.sources.files import find_relative_name
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

_FILE: Final = "saved_model.pb"
_PARTS: Final = ("variables", "assets", "assets.extra")
_FLAVORS: Final = frozenset({"tensorflow", "keras"})


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``saved_model.pb``, in the folder or below; with an ``MLmodel`` if its flavor is one of these."""
    if pulled.mlmodel is not None and not _FLAVORS.intersection(pulled.mlmodel.flavors):
        return None
    patterns = (_FILE, f"*/{_FILE}", f"*/*/{_FILE}")
    found = next((path for pattern in patterns for path in sorted(pulled.folder.glob(pattern)) if path.is_file()), None)
    if found is None:
        return None
    files = [
        (find_relative_name(pulled.folder, path), path.relative_to(found.parent).as_posix())
        for path in _list_files(found)
    ]
    chosen: dict[str, Json] = {} if pulled.signature is None else {"signature": pulled.signature}
    return Flavor(format="saved-model", files=tuple(files), metadata=chosen)


def _list_files(found: Path) -> list[Path]:
    """Return the files of a SavedModel, without other files in its folder, such as MLflow's own."""
    others = [path for part in _PARTS for path in sorted((found.parent / part).rglob("*")) if path.is_file()]
    marked = found.with_name("fingerprint.pb")
    return [found, *([marked] if marked.is_file() else []), *others]


SOURCE_FORMAT = SourceFormat(
    name="tensorflow",
    noun="a SavedModel of TensorFlow",
    detect=detect,
    seals=frozenset({"saved-model"}),
    interface="onnx",
    baseline="its signature in TensorFlow, with {threads}",
    order=81,
    refused={"recipe-invalid": "Name one of them in hone.model.signature."},
    takes_signature=True,
)
