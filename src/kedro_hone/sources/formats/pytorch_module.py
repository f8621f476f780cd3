"""PyTorch: the author's class, named by the recipe, with the state of a pulled exported program."""

from __future__ import annotations

import json
from pathlib import Path

from kedro_hone.core.errors import HoneError
from kedro_hone.core.workers.host.code_files import find_code_file
from kedro_hone.sources.flavor import Flavor
from kedro_hone.sources.formats import published, pytorch
from kedro_hone.sources.source_format import Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise a PyTorch program where the recipe names a class; the class's file is found and not imported.

    Args:
        pulled: What was pulled.

    Returns:
        The program as the class's state, the class's file, and ``module.json``, which says how to make the module;
        None when the recipe names no class or there is no PyTorch program.

    Raises:
        HoneError: ``recipe-invalid``: the class's file does not exist; ``model-corrupt``.
    """
    if pulled.author is None:
        return None
    program = published.detect(pulled) or pytorch.detect(pulled)
    if program is None or program.format != "pytorch":
        return None
    place, _, name = pulled.author.place.rpartition(":")
    file = find_class_file(place, project=pulled.author.project)
    module = {
        "class": f"{file.stem}:{name}",
        "file": file.name,
        "kwargs": dict(pulled.author.kwargs),
        "state": "model.pt2",
    }
    return program.model_copy(
        update={
            "format": "pytorch-module",
            "code": ((str(file), file.name),),
            "texts": (("module.json", json.dumps(module, indent=2) + "\n"),),
        }
    )


def find_class_file(place: str, *, project: Path) -> Path:
    """Return the file that holds the author's class, without importing it or its packages.

    Args:
        place: ``path/to/file.py``, relative to the project, or ``package.module``.
        project: The project's root.

    Returns:
        The file.

    Raises:
        HoneError: ``recipe-invalid``: there is no such file or module.
    """
    file = find_code_file(place, project=project)
    if file is not None:
        return file
    raise HoneError(
        "recipe-invalid",
        f"The class's file {place!r} does not exist.",
        why="hone.model.module is looked for as a path below the project's folder, or as package.module.",
        hint="Write path/to/file.py:Class or package.module:Class.",
    )


SOURCE_FORMAT = SourceFormat(
    name="pytorch-module",
    noun="a PyTorch class with its state (.pt2)",
    detect=detect,
    seals=frozenset({"pytorch-module"}),
    interface="pytorch",
    baseline="the author's class in eager PyTorch (eval, inference mode), {threads}",
    order=10,
    trust="module",
    untrusted="The class is run, and the recipe does not trust it.",
    hint="Add trust: [module] to the recipe, or leave hone.model.module out.",
    takes_class=True,
)
