"""The first calls of a model, at the shapes that it was optimized for: later ones then have their usual speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hone_runtime.interfaces.tensors import Arrays, Run
from hone_runtime.learner.golden import Golden
from hone_runtime.sessions.shapes import SHAPES
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.server.checks import BATCH
from kedro_hone.serving.server.tensors import Array

_CALLS = 2
"""The number of calls for each shape: some runtimes plan in the first one, and allocate in the second."""


def warm_up(run: Run, artifact: Artifact, *, golden: Golden | None, shapes: Sequence[dict[str, int]]) -> list[str]:
    """Call a model at each shape, and return what failed, as sentences.

    Args:
        run: Its call.
        artifact: The artifact, which may name shapes that it was compiled for.
        golden: Its golden rows, which are repeated to the shape's number of rows if they fit it.
        shapes: Further sizes of dynamic dimensions by name.
    """
    failed = list[str]()
    for sizes in list_shapes(artifact, shapes):
        try:
            feeds = make_feeds(artifact, sizes, golden)
            for _ in range(_CALLS):
                run(feeds)
        except Exception as error:  # noqa: BLE001 - runtimes raise anything; inputs of zeros need not be valid ones
            failed.append(f"the warm-up with {sizes} failed: {type(error).__name__}: {error}")
    return failed


def list_shapes(artifact: Artifact, shapes: Sequence[dict[str, int]]) -> Iterator[dict[str, int]]:
    """Return the sizes of the dynamic dimensions of each warm-up, without repetition; one empty value if none."""
    names = {size for spec in artifact.inputs for size in spec.shape if isinstance(size, str)}
    compiled = artifact.metadata.get(SHAPES)
    noted = [*(one.sizes for one in artifact.static_shapes), *(compiled if isinstance(compiled, list) else ()), *shapes]
    usable = [{name: sizes[name] for name in sorted(names)} for sizes in noted if names <= sizes.keys()]
    seen = list[dict[str, int]]()
    for sizes in usable or ([] if names else [{}]):
        if sizes not in seen:
            seen.append(sizes)
    yield from seen


def make_feeds(artifact: Artifact, sizes: dict[str, int], golden: Golden | None) -> Arrays:
    """Return inputs of a shape: the golden rows repeated where they fit, else zeros, and empty texts."""
    known = {name: packed.unpack() for name, packed in golden.inputs.items()} if golden else {}
    feeds = {spec.name: _fill(spec, spec.resolve(sizes), known.get(spec.name)) for spec in artifact.inputs}
    return {spec.name: feeds[spec.name] for spec in artifact.inputs}


def _fill(spec: TensorSpec, shape: tuple[int, ...], known: Array | None) -> Array:
    if known is not None and known.shape == shape:
        return known
    if known is not None and spec.shape[:1] == (BATCH,) and known.shape[1:] == shape[1:] and len(known):
        return np.ascontiguousarray(np.take(known, np.arange(shape[0]) % len(known), axis=0))
    if spec.dtype == "str":
        return np.full(shape, "", object)
    return np.zeros(shape, spec.dtype)
