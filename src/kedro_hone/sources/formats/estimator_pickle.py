"""A pickle of an estimator, as joblib or pickle writes it: opened in a worker, if the recipe trusts it."""

from __future__ import annotations

import json
import pickletools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kedro_hone.sources.formats.sklearn import REFERENCE
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

_LIBRARIES: Final = frozenset({"lightgbm", "sklearn", "xgboost"})
_MODELS: Final = frozenset({".joblib", ".pickle", ".pkl", ".pt", ".pt2", ".pth"})
_READ_BYTES: Final = 1 << 16
_FILE: Final = "model.joblib"


def detect(pulled: Pulled) -> Flavor | None:
    """Recognize one ``.joblib`` file, or one ``.pkl`` or ``.pickle`` file that names a class of the libraries.

    It becomes ``model.joblib`` with ``estimator.json``, which describes how to open it.
    """
    if pulled.mlmodel is not None:
        return None
    found = [path for path in pulled.folder.iterdir() if path.suffix in _MODELS and path.is_file()]
    if len(found) != 1 or not (found[0].suffix == ".joblib" or _is_estimator(found[0])):
        return None  # of several, such as a module with its scaler, the model is not known
    reference = {"class": "", "file": _FILE, "serialization": "joblib", "version": ""}
    return Flavor(
        format="sklearn",
        files=((found[0].name, _FILE),),
        texts=((REFERENCE, json.dumps(reference, indent=2) + "\n"),),
    )


def _is_estimator(path: Path) -> bool:
    if path.suffix not in {".pkl", ".pickle"}:
        return False
    with path.open("rb") as stream:
        start = stream.read(_READ_BYTES)
    return any(module.partition(".")[0] in _LIBRARIES for module in _list_modules(start))


def _list_modules(start: bytes) -> Iterator[str]:
    """Yield the modules of the classes that the start of a pickle names; nothing in it is executed.

    The rest may be missing, or be arrays that joblib writes between the pickle's instructions.
    """
    texts: list[str] = []
    try:
        for instruction, argument, _ in pickletools.genops(start):
            if instruction.name == "GLOBAL" and isinstance(argument, str):
                yield argument.partition(" ")[0]
            elif instruction.name == "STACK_GLOBAL" and len(texts) > 1:
                yield texts[-2]
            elif isinstance(argument, str):
                texts.append(argument)
    except (ValueError, KeyError, IndexError, OverflowError, struct.error):
        return


SOURCE_FORMAT = SourceFormat(
    name="estimator-pickle",
    noun="a pickle of an estimator",
    detect=detect,
    seals=frozenset({"sklearn"}),
    interface="sklearn",
    order=88,
    trust="pickle",
    untrusted="Loading a pickle runs whatever code its author put in, and hone.trust does not allow it.",
    hint="Set `hone.trust: [pickle]` if you trust its author. Or name the folder that "
    "mlflow.sklearn.save_model(model, 'folder', serialization_format=\"skops\") writes.",
    refused={"": "Save a classifier or a regressor that takes rows of columns, and name its file."},
)
