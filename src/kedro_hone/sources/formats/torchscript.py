"""TorchScript: a module that its author scripted or traced, bare or as MLflow's flavor ``pytorch`` writes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kedro_hone.sources.files import find_entry, find_relative_name, list_pickles
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

_SUFFIXES: Final = frozenset({".ts", ".torchscript", ".jit"})
_MARKS: Final = (b"/code/", b"/constants.pkl")
"""Parts of the list of entries at the end of such an archive that a pickle's archive does not have."""
_TAIL: Final = 1 << 20
"""The number of bytes at the end of a file that are checked."""


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``.ts``, ``.torchscript`` and ``.jit``, and those ``.pt``, ``.pth`` and ``.pkl`` that are programs.

    The latter have names of pickles: they are identified by two words in the last mebibyte of the file.

    Raises:
        HoneError: ``model-corrupt``.
    """
    data = pulled.folder if pulled.mlmodel is None else find_entry(pulled, "pytorch", "model_data")
    if data is None:
        return None
    files = [data] if data.is_file() else sorted(path for path in data.glob("*") if path.is_file())
    named = [path for path in files if path.suffix in _SUFFIXES]
    found = named or [path for path in list_pickles(data) if _is_program(path)]
    if len(found) != 1:
        return None
    return Flavor(format="torchscript-module", files=((find_relative_name(pulled.folder, found[0]), "model.pt"),))


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        tail = file.read(_TAIL)
    return all(mark in tail for mark in _MARKS)


SOURCE_FORMAT = SourceFormat(
    name="torchscript",
    noun="a module of TorchScript",
    detect=detect,
    seals=frozenset({"torchscript-module"}),
    interface="pytorch",
    baseline="the module itself in TorchScript, as it was saved, with {threads}",
    order=85,
)
