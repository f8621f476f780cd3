"""ExecuTorch's own code: compile exported programs, describe the written files, and run them."""

from __future__ import annotations

from typing import Any

from hone_runtime.sessions import compiled

from . import session

Json = dict[str, Any]

load = session.open_model


def transform(job: Json) -> Json:
    """Write a file for each of the recipe's shapes, and return notes."""
    from . import compilation  # slow to import

    return compilation.transform(job)


def describe(job: Json) -> Json:
    """Return the specs of the written files, each of which is opened.

    Raises:
        KeyError: It is of another format.
        ValueError: The index or a file cannot be read.
    """
    artifact = job["input"]
    if artifact["format"] != "executorch":
        raise KeyError(artifact["format"])
    for shape in artifact["static_shapes"]:
        session.open_file(artifact["path"], shape)
    return dict(compiled.read_index(artifact["path"]))
