"""Turn the user's data into what models take: once, so that every candidate gets the same bytes."""

from __future__ import annotations

import logging
from pathlib import Path

from kedro_hone.comparing.cutting import cut_calibration, cut_shapes, describe_split, refuse_overlaps
from kedro_hone.comparing.scoring import call_program
from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.data import TrackedFile
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.samples import CALIBRATION, GATE, SEARCH, Samples
from kedro_hone.programs import digest_programs, find_program
from kedro_hone.recipe.schema import Recipe

logger = logging.getLogger(__name__)

VERSION = 2
"""Increase it when the code would prepare other samples; it is part of their key in the store."""


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
            digest_programs(),
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
            cut_calibration(scratch / CALIBRATION / "feeds.npz", recipe.calibration_rows)
            cut_shapes(scratch / SEARCH / "feeds.npz", source, recipe, scratch)
            folder = workplace.store.keep_tree(digest, scratch)
        workplace.store.write_value(digest, notes)
    for warning in notes["warnings"]:
        logger.warning("warning   %s", warning)
    splits = notes["splits"]
    return Samples(
        digest=digest,
        splits={name: describe_split(name, files[name], splits[name], folder) for name in files},
        shapes={name: str(folder / "shapes" / f"{name}.npz") for name in recipe.shapes},
        program=str(program.path),
        program_digest=program.digest,
    )
