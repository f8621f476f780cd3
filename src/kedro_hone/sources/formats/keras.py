"""Keras: a file of the format ``.keras``, bare or as MLflow's flavors ``keras`` and ``tensorflow`` write it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from kedro_hone.sources.files import find_entry, find_relative_name
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

_FLAVORS: Final = ("keras", "tensorflow")
_DEEPEST: Final = ("*", "*/*", "*/*/*")


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise a ``.keras`` file in the folder or one level below, without opening it.

    Raises:
        HoneError: ``model-unsupported``: it is the older format HDF5, or there are several; or ``model-corrupt``.
    """
    places = [pulled.folder]
    if pulled.mlmodel is not None:
        named = next((name for name in _FLAVORS if name in pulled.mlmodel.flavors), None)
        if named is None or not _has_data(pulled, named):
            return None
        place = find_entry(pulled, named, "data")
        places = [place] if place is not None else []
    files = [path for place in places for path in _list_files(place)]
    found = [path for path in files if path.suffix == ".keras"]
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4])
        raise _explain(
            "The folder contains several models of Keras.", f"They are {names}.", "Leave only the right one in it."
        )
    if not found and (old := [path for path in files if path.suffix == ".h5"]):
        what = f"The model is a file of HDF5 ({old[0].name})."
        why = "Keras has replaced that format, and reads what others wrote in it with exceptions only."
        raise _explain(what, why, 'Load it in Keras, and save it again: model.save("model.keras").')
    if not found:
        return None
    return Flavor(format="keras", files=((find_relative_name(pulled.folder, found[0]), "model.keras"),))


def _has_data(pulled: Pulled, name: str) -> bool:
    entry = pulled.mlmodel.flavors[name] if pulled.mlmodel is not None else None
    return isinstance(entry, dict) and "data" in entry


def _list_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(path for pattern in _DEEPEST for path in place.glob(pattern) if path.is_file())


def _explain(what: str, why: str, hint: str) -> HoneError:
    return HoneError("model-unsupported", what, why=why, hint=hint)


SOURCE_FORMAT = SourceFormat(
    name="keras",
    noun="a model of Keras",
    detect=detect,
    seals=frozenset({"keras"}),
    interface="keras",
    baseline="the model itself in Keras on TensorFlow, model(x, training=False), with {threads}",
    order=82,
)
