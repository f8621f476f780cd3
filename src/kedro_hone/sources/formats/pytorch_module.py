"""PyTorch: the author's class from the recipe, with the state of a pulled exported program or in safetensors."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from kedro_hone.core.workers.host.code_files import find_code_file
from kedro_hone.sources.files import find_only, find_relative_name
from kedro_hone.sources.formats import published, pytorch
from kedro_hone.sources.huggingface.adapters import refuse_adapter
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

WEIGHTS: Final = "model.safetensors"


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise a PyTorch program, or bare weights, if the recipe has a class; the class is not imported.

    The program or the weights are the class's state; added are the class's file and ``module.json``, which describes
    how to make the module.

    Raises:
        HoneError: ``recipe-invalid``: the class's file does not exist, or has no such class; ``model-corrupt``; or
            ``model-unsupported`` for an adapter.
    """
    if pulled.author is None:
        return None
    refuse_adapter(pulled)
    program = published.detect(pulled) or pytorch.detect(pulled) or _find_weights(pulled)
    if program is None or program.format not in {"pytorch", "pytorch-module"}:
        return None
    state = next((file for file in program.files if file[1] in {"model.pt2", WEIGHTS}), None)
    if state is None:
        return None
    place, _, name = pulled.author.place.rpartition(":")
    file = find_code_file(place, project=pulled.author.project)
    if file is None:
        raise HoneError(
            "recipe-invalid",
            f"The class's file {place!r} does not exist.",
            why="hone.model.module is a path below the project's folder, or package.module.",
            hint="Write path/to/file.py:Class or package.module:Class.",
        )
    _check_class(file, name, place=place)
    kwargs = dict(pulled.author.kwargs)
    module = {"class": f"{file.stem}:{name}", "file": file.name, "kwargs": kwargs, "state": state[1]}
    texts = (("module.json", json.dumps(module, indent=2) + "\n"),)
    files = (state, (str(file), file.name))  # no other untrusted file next to the class
    return program.model_copy(update={"format": "pytorch-module", "files": files, "texts": texts})


def _find_weights(pulled: Pulled) -> Flavor | None:
    """Return ``model.safetensors``, or the only file of that kind; MLflow's flavors do not store a state this way."""
    path = find_only(pulled.folder, WEIGHTS) if pulled.mlmodel is None else None
    if path is None:
        return None
    return Flavor(format="pytorch-module", files=((find_relative_name(pulled.folder, path), WEIGHTS),))


def _check_class(file: Path, name: str, *, place: str) -> None:
    """Refuse a class if its name is not in its file, unless the file may define it indirectly."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if name.isidentifier() and re.search(rf"\b({name}|__getattr__|globals)\b|\bimport\s*\(?\*", text):
        return
    classes = re.findall(r"^\s*class\s+(\w+)", text, flags=re.MULTILINE)
    near = difflib.get_close_matches(name, classes, n=1)
    known = f"It has {', '.join(classes)}" if classes else "It has none"
    raise HoneError(
        "recipe-invalid",
        f"There is no class {name!r} in {place!r}.",
        why=known + (f"; did you mean {near[0]!r}?" if near else "."),
        hint="Correct hone.model.module: path/to/file.py:Class or package.module:Class.",
    )


SOURCE_FORMAT = SourceFormat(
    name="pytorch-module",
    noun="a PyTorch class with its state (.pt2 or .safetensors)",
    detect=detect,
    seals=frozenset({"pytorch-module"}),
    interface="pytorch",
    baseline="the author's class in eager PyTorch (eval, inference mode), {threads}",
    order=10,
    trust="module",
    untrusted="The class is run, and hone.trust does not allow it.",
    hint="Add `hone.trust: [module]`, or leave hone.model.module out.",
    takes_class=True,
)
