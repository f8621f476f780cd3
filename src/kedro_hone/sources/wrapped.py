"""A PythonModel of MLflow: its author's code around the models that it loads; some of them may be optimized alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Json
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.source_format import MLMODEL, Pulled

_LOADER: Final = "mlflow.pyfunc.model"
_KEDRO: Final = b"kedro_mlflow"
"""A word in the pickle of a pipeline of kedro-mlflow, which contains the names of its classes."""
_MOST_READ: Final = 64 << 20
_MOST_FOLDERS: Final = 20
_LARGEST: Final = 1 << 20
"""How many bytes of documents a checked folder may have: the result is only advice in an error."""
_MOST_DOCUMENTS: Final = 4 * _LARGEST
"""How many bytes of documents all folders together may have."""
_VOCABULARIES: Final = frozenset({"tokenizer.json", "vocab.json"})
"""Documents that no source format reads."""
_MOST_SHOWN: Final = 5
_PICKLES: Final = (".pkl", ".pickle", ".joblib", ".pth", ".pt", ".bin")

Recognise = Callable[[Path], str | None]
"""From a folder to a noun with an article for its model; None if it cannot be optimized."""


def explain_wrapped(pulled: Pulled, recognise: Recognise) -> HoneError | None:
    """Return the error for a PythonModel, with the paths of models inside that can be optimized; None for others.

    Nothing is unpickled: a pipeline of kedro-mlflow is recognised by a name in the pickle's bytes.
    """
    entry = pulled.mlmodel.flavors.get("python_function") if pulled.mlmodel else None
    if not isinstance(entry, dict) or entry.get("loader_module") != _LOADER:
        return None
    found = list(islice(_find_parts(pulled.folder, recognise), _MOST_SHOWN))
    kind = "a pipeline of Kedro's, by kedro-mlflow" if _is_kedro(pulled.folder, entry) else "a PythonModel of MLflow's"
    what = f"The model is {kind}: its author's code around what it loads."
    if found:
        return HoneError(
            "model-unsupported",
            what,
            why=f"Such code cannot be converted. What can is inside: {_join(found)}.",
            hint=f"Name it: add /{found[0][0]} to the URI in hone.model.uri, and name in hone.publish.name the model "
            "that its winner goes to.",
        )
    pickles = _list_pickles(pulled.folder)
    named = f" {pickles[0]} is a pickle, which has no flavor." if pickles else ""
    return HoneError(
        "model-unsupported",
        what,
        why=f"Such code cannot be converted, and there is no model inside that could be.{named}",
        hint="Log the model that it loads by its own flavor, such as mlflow.sklearn.log_model(model, name='clf'), and "
        "name what that returns: its model_uri, models:/m-….",
    )


def _find_parts(folder: Path, recognise: Recognise) -> Iterator[tuple[str, str]]:
    """Yield the paths of models below a folder, each with its noun; the contents of a model are not searched."""
    folders = (path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())
    taken: list[Path] = []
    left = _MOST_DOCUMENTS
    for place in sorted(folders, key=lambda path: (len(path.parts), path))[:_MOST_FOLDERS]:
        if any(place.is_relative_to(one) for one in taken):
            continue
        size = _measure_documents(place)
        if size > min(left, _LARGEST):
            continue
        left -= size
        if noun := recognise(place):
            taken.append(place)
            yield _name(place, folder), noun


def _measure_documents(folder: Path) -> int:
    """Return how many bytes source formats may read below a folder: JSON, ``MLmodel`` and headers of weights."""
    total = 0
    for path in folder.rglob("*"):
        if path.suffix == ".safetensors" and path.is_file():
            with path.open("rb") as stream:
                total += int.from_bytes(stream.read(8), "little")
        elif (path.suffix == ".json" and path.name not in _VOCABULARIES) or path.name == MLMODEL:
            total += path.stat().st_size if path.is_file() else 0
    return total


def _name(path: Path, folder: Path) -> str:
    """Return a path in a folder, with unprintable characters escaped: a name may have line breaks."""
    named = path.relative_to(folder).as_posix()
    return named if named.isprintable() else repr(named)[1:-1]


def _list_pickles(folder: Path) -> list[str]:
    """Return the pickles below a folder, except the PythonModel's own, which is in it."""
    found = (path for path in sorted(folder.rglob("*/*")) if path.suffix in _PICKLES and path.is_file())
    return [_name(path, folder) for path in found]


def _is_kedro(folder: Path, entry: dict[str, Json]) -> bool:
    name = entry.get("python_model")
    if not isinstance(name, str):
        return False
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise make_corrupt(folder / MLMODEL, "its python_model is not in the folder")
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return _KEDRO in stream.read(_MOST_READ)


def _join(found: list[tuple[str, str]]) -> str:
    clauses = [f"{path} is {noun}" for path, noun in found]
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"
