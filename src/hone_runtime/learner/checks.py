"""Checks of a manifest before its artifact is loaded: it may be untrusted, even if its digests match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.errors import HoneError
from hone_runtime.learner.notes import find_faults
from hone_runtime.text import begin_sentence
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.composite import read_parts

MOST_THREADS: Final = 4096
"""The limit, as in a recipe: a runtime starts as many threads as requested."""


class ArgumentError(ValueError):
    """An argument of ``load`` is invalid, or does not fit the winner, which itself may be intact."""


def check_artifact(artifact: Artifact) -> None:
    """Refuse an artifact whose attributes contradict each other, or exceed what an artifact may request.

    Raises:
        HoneError: ``model-corrupt``; or ``model-unsupported`` for run options that its runtime does not accept.
    """
    if fault := next(_find_faults(artifact), None):
        raise explain_fault(fault)
    requested = [(artifact.runtime, artifact.run_options)]
    requested += [(part.runtime, part.run_options) for part in read_parts(artifact)]
    toolchains = [(find_installed(name), options) for name, options in requested if name]
    if fault := next((bad for one, options in toolchains if one and (bad := one.find_bad_option(options))), None):
        raise HoneError(
            "model-unsupported",
            "The model sets options of its runtime that no model may set.",
            why=f"{begin_sentence(fault)}. With such options a runtime can write files and open libraries.",
            hint="Do not load it unless you know who published it, and why; optimize its source again with kedro-hone.",
        )


def explain_fault(fault: str) -> HoneError:
    """Return the error for a manifest with inconsistent attributes; the fault is a clause."""
    return HoneError(
        "model-corrupt",
        "The model's manifest does not describe a valid model.",
        why=f"{begin_sentence(fault)}.",
        hint="Pull or download it again; if that does not help, publish it again.",
    )


def _find_faults(artifact: Artifact) -> Iterator[str]:
    threads = artifact.metadata.get("threads")
    if threads is not None and not (type(threads) is int and 1 <= threads <= MOST_THREADS):
        yield f"it was measured with {threads!r:.80} threads"
    yield from find_faults(artifact.metadata)
    try:
        for part in read_parts(artifact):
            yield from find_faults(part.metadata)
    except ValueError as error:
        yield f"its parts are not valid: {error!s:.200}"
    for side, specs in (("inputs", artifact.inputs), ("outputs", artifact.outputs)):
        if len({spec.name for spec in specs}) < len(specs):
            yield f"two of its {side} have one name"
    for shape in artifact.static_shapes:
        dims = {dim for spec in artifact.inputs for dim in spec.shape if isinstance(dim, str)}
        if dims - shape.sizes.keys() or min(shape.sizes.values(), default=1) < 1:
            yield f"the shape {shape.name!r:.80} lacks a size, or has one under 1"
