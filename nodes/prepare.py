"""Turn the user's data into what models take: once, so that every candidate gets the same bytes."""

from __future__ import annotations

from kedro_hone.comparing.cutting import cut_calibration, cut_shapes, refuse_overlaps
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.samples import CALIBRATION, SEARCH, SPLITS, Samples, Split, TrackedFile
from kedro_hone.programs import call_program, digest_programs, find_program, keep_program, locate_program
from kedro_hone.recipe.schema import Recipe

logger = open_logger(__name__)

VERSION = 3
"""Increase it when the code would prepare other samples; it is part of their key in the store."""


def prepare(source: Artifact, recipe: Recipe, store: Store, run: RunFolder, **splits: TrackedFile) -> Samples:
    """Prepare the splits and the batch of each shape, and keep them with the program's code in one tree of the store.

    Raises:
        HoneError: ``data-unreadable``, ``data-empty``, ``data-overlap``, ``labels-mismatch`` or ``program-unknown``.
    """
    program = find_program(recipe.program.name, project=run.project)
    files = {name: splits[name] for name in SPLITS}
    specs = [[spec.model_dump(mode="json") for spec in side] for side in (source.inputs, source.outputs)]
    code = [digest_programs(), program.digest, recipe.program.options]
    rows = [{name: file.md5 for name, file in files.items()}, *specs, recipe.shapes, recipe.calibration_rows]
    digest = digest_json(["samples", VERSION, *code, *rows])
    notes = store.read_value(digest)
    if notes is None or store.find_tree(digest) is None:
        with store.workspace() as scratch:
            kept = keep_program(program, scratch)
            path = str(locate_program(kept, scratch, digest=program.digest))
            paths = {name: {"path": file.path} for name, file in files.items()}
            job = {"program": path, "program_options": dict(recipe.program.options), "splits": paths}
            notes = call_program("read", job=job, source=source, output=scratch, store=store, run=run)
            refuse_overlaps(notes["overlaps"])
            cut_calibration(scratch / CALIBRATION / "feeds.npz", recipe.calibration_rows)
            cut_shapes(scratch / SEARCH / "feeds.npz", source, recipe, scratch)
            store.keep_tree(digest, scratch)
        notes |= {"program": kept}
        store.write_value(digest, notes)
    for warning in notes["warnings"]:
        logger.warning("warning   %s", warning)
    return Samples(
        digest=digest,
        splits={
            name: Split(name=name, n=notes["splits"][name]["n"], path=file.source, md5=file.md5, rev=file.resolved_rev)
            for name, file in files.items()
        },
        shapes={name: f"shapes/{name}.npz" for name in recipe.shapes},
        program=notes["program"],
        program_digest=program.digest,
    )
