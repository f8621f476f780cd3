"""The golden rows of a winner, stored when it has passed the gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.proof import GOLDEN
from hone_runtime.learner.golden import make_golden
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.digest import digest_file
from hone_runtime.values.samples import GATE
from kedro_hone.search.comparison.arrays import read_arrays
from kedro_hone.search.comparison.crops import has_fixed_batch
from kedro_hone.search.context import RunContext
from kedro_hone.search.scores import Run


@dataclass(frozen=True, kw_only=True)
class GoldenRows:
    """The first rows of the gate split, and the folder of the outputs of a candidate and of its parts."""

    feeds: Path
    rows: int
    fixed: int | None  # the batch of a source with a fixed batch

    def make_run(self, artifact: Artifact, output: Path) -> Run:
        """Return the run of one call with these rows, as in the learner, with its outputs in a file.

        A candidate that was specialized for some sizes uses the smallest batch that is large enough, or several of its
        largest.
        """
        batches = sorted(shape.batch for shape in artifact.static_shapes)
        if self.fixed is not None:
            batches = [self.fixed]
        largest = batches[-1] if batches else self.rows
        return self.feeds, output, next((batch for batch in batches if batch >= self.rows), largest)


def cut_golden(context: RunContext, folder: Path) -> GoldenRows | None:
    """Write the golden rows of the gate split to a folder; None if the recipe requires none."""
    rows = context.recipe.golden_rows
    if not rows:
        return None
    feeds = read_arrays(context.locate(context.samples.splits[GATE].feeds))
    cut = {name: array[:rows] for name, array in feeds.items()}
    path = folder / "golden-feeds.npz"
    np.savez(path, allow_pickle=False, **cut)
    fixed = context.largest_batch if has_fixed_batch(context.source) else None
    return GoldenRows(feeds=path, rows=min(map(len, cut.values()), default=0), fixed=fixed)


def store_golden(
    golden_rows: GoldenRows, outputs: Sequence[Path], context: RunContext, *, largest_error: float
) -> str | None:
    """Store rows of the gate split with a winner's outputs for them as a tree of the store; return its key.

    ``outputs`` are files (``.npz``): the winner's own, then those of its parts. None if they cannot be stored.
    """
    made, *parts = (read_arrays(path) for path in outputs)
    golden = make_golden(
        read_arrays(golden_rows.feeds),
        made,
        rows=golden_rows.rows,
        largest_error=largest_error,
        source=context.source,
        host=read_host(),
        parts=parts,
    )
    if golden is None:
        return None
    with context.store.workspace() as folder:
        (folder / GOLDEN).write_text(golden.model_dump_json(), encoding="utf-8")
        key = digest_file(folder / GOLDEN)
        context.store.store_tree(key, folder)
    return key
