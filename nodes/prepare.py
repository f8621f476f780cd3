"""Turn the user's data into what models take: once, so that every candidate gets the same bytes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kedro_hone.comparing.scoring import call_program
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.data import TrackedFile
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.samples import CALIBRATION, GATE, SEARCH, Samples, Split
from kedro_hone.programs import digest_worker, find_program
from kedro_hone.recipe.schema import Recipe

logger = logging.getLogger(__name__)

VERSION = 2
"""Raised when samples would come out differently; part of their key in the store."""


def prepare(
    *,
    source: Artifact,
    calibration: TrackedFile,
    search: TrackedFile,
    gate: TrackedFile,
    recipe: Recipe,
    workplace: Workplace,
) -> Samples:
    """Prepare the three splits and the batch of each shape.

    Args:
        source: The source model, whose inputs the data become.
        calibration: Given to the toolchains.
        search: To compare candidates.
        gate: Touched once, for the finalists and the source.
        recipe: The recipe.
        workplace: Where the run works.

    Returns:
        The samples.

    Raises:
        HoneError: ``data-unreadable``, ``data-empty``, ``data-overlap``, ``labels-mismatch`` or ``program-unknown``.
    """
    program = find_program(recipe.program.name, project=Path.cwd())
    files = {CALIBRATION: calibration, SEARCH: search, GATE: gate}
    digest = digest_json(
        [
            "samples",
            VERSION,
            digest_worker(),
            program.digest,
            recipe.program.options,
            {name: file.md5 for name, file in files.items()},
            [spec.model_dump(mode="json") for spec in source.inputs],
            [spec.model_dump(mode="json") for spec in source.outputs],
            recipe.shapes,
            recipe.calibration_rows,
        ]
    )
    folder = workplace.store.find_tree(digest)
    notes = workplace.store.read_value(digest)
    if folder is None or notes is None:
        with workplace.store.workspace() as scratch:
            job = {
                "program": str(program.path),
                "program_options": dict(recipe.program.options),
                "splits": {name: {"path": file.path} for name, file in files.items()},
            }
            notes = call_program("read", job=job, source=source, samples_folder=scratch, workplace=workplace)
            refuse_overlaps(notes["overlaps"])
            _cut_calibration(scratch / CALIBRATION / "feeds.npz", recipe.calibration_rows)
            _cut_shapes(scratch / SEARCH / "feeds.npz", source, recipe, scratch)
            folder = workplace.store.keep_tree(digest, scratch)
        workplace.store.write_value(digest, notes)
    for warning in notes["warnings"]:
        logger.warning("warning   %s", warning)
    splits = notes["splits"]
    return Samples(
        digest=digest,
        splits={name: _describe(name, files[name], splits[name], folder) for name in files},
        shapes={name: str(folder / "shapes" / f"{name}.npz") for name in recipe.shapes},
        program=str(program.path),
        program_digest=program.digest,
    )


def _describe(name: str, file: TrackedFile, read: dict[str, Json], folder: Path) -> Split:
    return Split(
        name=name,
        n=read["n"],
        rows=read["rows"],
        feeds=str(folder / name / "feeds.npz"),
        targets=str(folder / name / "targets.npz"),
        path=file.source,
        md5=file.md5,
        rev=file.rev,
        resolved_rev=file.resolved_rev,
    )


def refuse_overlaps(overlaps: list[dict[str, Json]]) -> None:
    """Refuse splits that share rows.

    Args:
        overlaps: What the program's worker found.

    Raises:
        HoneError: ``data-overlap``, naming the first shared row.
    """
    for overlap in overlaps:
        first, second = overlap["splits"]
        raise HoneError(
            "data-overlap",
            f"The {first} and {second} splits share {overlap['count']} row(s).",
            why=f"Row {overlap['example_rows'][0]} of {first} is row {overlap['example_rows'][1]} of {second}: a score "
            "on rows that were used before proves nothing.",
            hint="Remove the shared rows from one of them, then dvc add, git commit, dvc push.",
        )


def _cut_calibration(path: Path, rows: int) -> None:
    arrays = {name: array[:rows] for name, array in _load(path).items()}
    np.savez(path, allow_pickle=False, **arrays)


def _cut_shapes(feeds: Path, source: Artifact, recipe: Recipe, folder: Path) -> None:
    """Write one batch for each shape, from the first rows of the search split, repeated where they do not suffice."""
    (folder / "shapes").mkdir()
    arrays = _load(feeds)
    for shape in recipe.all_shapes:
        batch = {}
        for spec in source.inputs:
            rows = np.take(arrays[spec.name], range(shape.batch), axis=0, mode="wrap")
            batch[spec.name] = np.ascontiguousarray(_crop(rows, spec.shape, shape.sizes))
        np.savez(folder / "shapes" / f"{shape.name}.npz", allow_pickle=False, **batch)


def _crop(rows: NDArray[Any], dims: tuple[int | str, ...], sizes: dict[str, int]) -> NDArray[Any]:
    """Cut named dimensions beyond the batch to the sizes of a shape."""
    for axis, dim in enumerate(dims):
        if axis > 0 and isinstance(dim, str) and dim in sizes:
            if rows.shape[axis] < sizes[dim]:
                raise HoneError(
                    "data-unreadable",
                    f"A shape of the recipe asks for {dim} = {sizes[dim]}, and the data have {rows.shape[axis]}.",
                    why="What is timed is real data; it is cut, never stretched.",
                    hint="Let the program prepare rows at least that long, or make the shape smaller.",
                )
            rows = np.take(rows, range(sizes[dim]), axis=axis)
    return rows


def _load(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
