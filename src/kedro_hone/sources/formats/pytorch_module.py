"""PyTorch: the author's class, named by the recipe, with the state of a pulled exported program."""

from __future__ import annotations

import json

from kedro_hone.core.errors import HoneError
from kedro_hone.core.workers.host.code_files import find_code_file
from kedro_hone.sources.formats import published, pytorch
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise a PyTorch program where the recipe names a class; neither the class nor its package is imported.

    The program is the class's state; with it go the class's file, and ``module.json``: how to make the module.

    Raises:
        HoneError: ``recipe-invalid``: the class's file does not exist; ``model-corrupt``.
    """
    if pulled.author is None:
        return None
    program = published.detect(pulled) or pytorch.detect(pulled)
    if program is None or program.format != "pytorch":
        return None
    place, _, name = pulled.author.place.rpartition(":")
    file = find_code_file(place, project=pulled.author.project)
    if file is None:
        raise HoneError(
            "recipe-invalid",
            f"The class's file {place!r} does not exist.",
            why="hone.model.module is looked for as a path below the project's folder, or as package.module.",
            hint="Write path/to/file.py:Class or package.module:Class.",
        )
    kwargs = dict(pulled.author.kwargs)
    module = {"class": f"{file.stem}:{name}", "file": file.name, "kwargs": kwargs, "state": "model.pt2"}
    texts = (("module.json", json.dumps(module, indent=2) + "\n"),)
    files = (*program.files, (str(file), file.name))
    return program.model_copy(update={"format": "pytorch-module", "files": files, "texts": texts})


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
